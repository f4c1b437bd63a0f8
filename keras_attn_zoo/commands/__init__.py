"""The commands of `attn-zoo`, one file each, and the command line of the recipes.

They share `parser`, `options` and `guard`.
"""
