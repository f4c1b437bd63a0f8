"""Training: the loss per token, one train step per backend, schedules, callbacks."""
