"""Numerics below layers and training: loops, masks, and backward passes written by hand."""
