"""Every mechanism of the registry once more, written from the paper's equation: a file for each file of `layers/`.

Each file has `REFERENCES`, a `Reference` for every name of its mechanism; here they are put together.
"""

import importlib
import pkgutil

REFERENCES = {}
for _module in pkgutil.iter_modules(__path__):
    REFERENCES |= importlib.import_module(f"{__name__}.{_module.name}").REFERENCES
