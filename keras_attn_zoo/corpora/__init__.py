"""Corpora: by name, in a user's files, and generated."""
