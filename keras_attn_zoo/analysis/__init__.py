"""Pictures and statistics of attention weights: arrays only."""
