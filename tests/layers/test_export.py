"""`keras.Model.export` of every mechanism under JAX, whose programs TensorFlow takes with symbolic sizes."""

import os
import subprocess
import sys

import keras
import pytest

# In a process of its own: the tests hide TensorFlow, and it alone reads the result.
CHECK = """
import keras
import numpy as np
import tensorflow as tf

from tests.layers.cases import CASES

for case in CASES:
    inputs = case.inputs()
    tensors = {part: keras.Input((None, x.shape[-1]), name=part) for part, x in inputs.items()}
    model = keras.Model(tensors, case.layer()(**tensors, **case.causal, return_attention_scores=True))
    model.export(str(case), verbose=False)
    # Its variables go with it.
    exported = tf.saved_model.load(str(case))
    found = exported.serve(inputs)
    for one, wanted in zip(found, model(inputs), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=0, atol=2e-6, err_msg=str(case))
"""


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of the other backends, Keras exports the code itself")
@pytest.mark.slow
def test_exported_models_return_the_same(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHECK]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
