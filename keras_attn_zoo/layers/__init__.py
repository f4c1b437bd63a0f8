"""Attention layers: one mechanism, one file, the equation first.

The files of this folder are discovered: a mechanism is public, and has a name in `ATTENTIONS`, because its file is
here. `__init__.pyi` lists the same names for editors and type checkers; `docs/write_tables.py` writes it.
"""

import importlib
import pkgutil

from keras_attn_zoo.support.extras import require_backend

require_backend()

import keras

from keras_attn_zoo.layers.base.attention_layer import AttentionLayer
from keras_attn_zoo.layers.registry import ATTENTIONS, attention, get_attention

__all__ = ["ATTENTIONS", "AttentionLayer", "attention", "get_attention"]

for _module in pkgutil.iter_modules(__path__):
    _found = importlib.import_module(f"{__name__}.{_module.name}")
    for _name, _layer in vars(_found).items():
        _of_file = isinstance(_layer, type) and _layer.__module__ == _found.__name__
        # Whatever a saved model may contain is public.
        if _of_file and keras.saving.get_registered_name(_layer) != _name:
            globals()[_name] = _layer
            __all__.append(_name)

__all__.sort()
