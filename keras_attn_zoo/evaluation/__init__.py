"""Scores of translations and alignments, and timing: strings, arrays and files only."""
