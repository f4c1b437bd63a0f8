"""Systems, runs, run folders and tables."""
