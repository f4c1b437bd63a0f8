"""Scores of translations and alignments, and timing; works on strings, arrays and files alone."""
