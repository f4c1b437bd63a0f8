"""Training: the loss per token, one train step per backend, schedules, callbacks."""

from keras_attn_zoo.support.extras import require_backend

require_backend()
