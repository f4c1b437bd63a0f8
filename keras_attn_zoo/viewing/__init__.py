"""Statistics and pictures of attention weights, and the page on which attention and search are explored.

They know arrays and strings, and no model.
"""
