"""Many runs: comparisons, the tables and findings of papers, and their pages."""
