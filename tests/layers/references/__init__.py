"""Every mechanism of the registry once more, written from the paper's equation: a file for each file of `layers/`.

Each file has `REFERENCES`, a `Reference` for every name of its mechanism; here they are put together. Where
`MECHANISMS_OF` names another package, the laws are run on its mechanisms alone: its files have the layers, those of
its `references` the references.
"""

import importlib
import os
import pkgutil

from keras_attn_zoo.layers import ATTENTIONS


def modules_of(package):
    """The modules that stand in a package, imported."""
    path = importlib.import_module(package).__path__
    return [importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path)]


OUTSIDE = os.environ.get("MECHANISMS_OF")
if OUTSIDE:
    ATTENTIONS.clear()
    modules_of(OUTSIDE)
REFERENCES = {}
for _module in modules_of(f"{OUTSIDE}.references" if OUTSIDE else __name__):
    REFERENCES |= _module.REFERENCES
