"""Corpora by name: which there are, where they come from, and their folders on this machine."""
