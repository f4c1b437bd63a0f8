"""`keras.Model.export` of translators and bodies: a SavedModel for any number and length of sentences."""

import os
import subprocess
import sys

import keras
import pytest

from keras_attn_zoo.support.errors import UserError
from tests import tiny

# In a process of its own: the tests hide TensorFlow, and it alone reads the result.
CHECK = """
import numpy as np
import tensorflow as tf

from tests import tiny

for case, choices in (("rnn", {}), ("latent", {"output": "latent"}), ("transformer", {"body": tiny.transformer})):
    translator = tiny.translator(**choices)
    bodies = {"transformer-body": translator.backbone} if case == "transformer" else {}
    for place, model in {case: translator, **bodies}.items():
        model.export(place, verbose=False)
        # Its variables go with it.
        exported = tf.saved_model.load(place)
        for count, source, target in ((2, 5, 3), (1, 4, 7)):
            sides = {"encoder": source, "decoder": target}
            x = {f"{side}_token_ids": np.full((count, n), 5, "int32") for side, n in sides.items()}
            x |= {f"{side}_padding_mask": np.arange(n) < [[n - 1]] * count for side, n in sides.items()}
            wanted, found = model(x), exported.serve(x)
            assert wanted.keys() == found.keys(), found.keys()
            for key, one in wanted.items():
                np.testing.assert_allclose(found[key], np.asarray(one), rtol=0, atol=5e-6, err_msg=f"{place} {key}")
"""


@pytest.mark.skipif(keras.config.backend() == "torch", reason="refused")
@pytest.mark.long
def test_translators_and_bodies_are_exported(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHECK]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(keras.config.backend() != "torch", reason="others write one")
def test_pytorch_says_what_does(tmp_path):
    for model in (tiny.translator(), tiny.backbone()):
        with pytest.raises(UserError, match="save a preset, and export it under JAX"):
            model.export(tmp_path / "served")
    assert not any(tmp_path.iterdir())
