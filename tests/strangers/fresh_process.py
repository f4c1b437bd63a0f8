"""What a fresh process finds in saved models: `python -m tests.strangers.fresh_process FOLDER`.

It knows what a stranger knows who was given the files: the code of his own model, and that the layers are imported.
"""

import gc
import json
import sys
from pathlib import Path

import tests.conftest  # noqa: F401  quiet libraries, and no TensorFlow where it is not the backend

# isort: split
import keras
import numpy as np

from tests.layers.calls import compiled, to_numpy
from tests.strangers.models import FAMILIES, inputs_with, precision

# The program is the same, unless it is an exported one.
TOLERANCE = 1e-6


def difference(found, wanted):
    """The largest difference of each output, where there is one, relative to its largest number."""
    found = found if isinstance(found, dict) else {"prediction": found}
    assert found.keys() == set(wanted)
    found = {
        name: np.max(np.abs(to_numpy(found[name]) - x)) / max(1.0, np.max(np.abs(x))) for name, x in wanted.items()
    }
    return {name: float(x) for name, x in found.items() if not x <= TOLERANCE}


def weights_of(model):
    return [to_numpy(w.value) for w in model.weights]


def report(folder):
    """Differences by file and output."""
    for path in sorted(folder.glob("*.npz")):
        kept = folder / path.stem
        family, policy = path.stem.split("-")[:2]
        inputs, wanted = inputs_with(family=family), dict(np.load(path))
        model = keras.saving.load_model(kept.with_suffix(".keras"))
        yield f"{path.stem}.keras", difference(compiled(model)(inputs), wanted)
        if (weights := kept.with_suffix(".weights.h5")).exists():
            with precision(policy) as options:
                _, fresh = FAMILIES[family](**options)
            fresh.load_weights(weights)
            equal = map(np.array_equal, weights_of(fresh), weights_of(model))
            yield weights.name, {w.path: "differs" for w, same in zip(fresh.weights, equal, strict=True) if not same}
        for served in (kept.with_suffix(".served"), kept.with_suffix(".pt2")):
            if served.exists():
                found = serve(served, inputs)
                yield served.name, difference(found, {name: wanted[name] for name in found})


def serve(path, inputs):
    """Outputs of an exported model, which needs neither Keras nor this package."""
    if path.suffix == ".pt2":
        import torch

        return torch.export.load(path).module()({name: torch.from_numpy(x) for name, x in inputs.items()})
    import tensorflow as tf

    # Held while it is called: its variables go with it.
    loaded = tf.saved_model.load(path)
    return loaded.serve({name: tf.constant(x) for name, x in inputs.items()})


if __name__ == "__main__":
    # As in tests/conftest.py.
    gc.freeze()
    print(json.dumps(dict(report(Path(sys.argv[1])))))
