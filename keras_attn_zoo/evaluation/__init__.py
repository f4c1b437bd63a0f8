"""Scores of translations and alignments, and the clocks beside them: strings, arrays and files only."""
