"""Several devices that share the rows of every batch: which ones, and what each backend needs for that."""

from keras_attn_zoo.support.extras import require_backend

require_backend()

from keras_attn_zoo.devices.context import Devices, agreed, current, leader_first, leads, using, wait
from keras_attn_zoo.devices.start import KINDS, devices_of

__all__ = ["KINDS", "Devices", "agreed", "current", "devices_of", "leader_first", "leads", "using", "wait"]
