"""The public site: landing page, gallery of mechanisms, guide and API, presets for download.

It stands above translators and presets, and below nothing but the command that builds it.
"""
