"""The commands of `attn-zoo`, one file each, and the command line of the recipes.

`parser`, `options` and `guard` are what they share.
"""
