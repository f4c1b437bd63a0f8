"""The page on which a translator's attention and its search are explored: one HTML file, or a server on loopback.

It knows arrays and strings, and no model: `Translator.explore` fills it.
"""
