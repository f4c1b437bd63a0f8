"""Pictures and statistics of attention weights, given as arrays."""
