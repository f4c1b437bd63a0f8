"""How models run: compiled functions, weights prepared for inference, batches in parallel."""
