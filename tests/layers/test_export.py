"""`keras.Model.export` of every mechanism under JAX, whose programs TensorFlow takes with symbolic sizes."""

import os
import subprocess
import sys

import keras
import pytest

from tests.layers.cases import CASES

# In a process of its own: the tests hide TensorFlow, and it alone reads the result.
CHECK = """
import sys

import keras
import numpy as np
import tensorflow as tf

from tests.layers.cases import CASES

for case in CASES:
    if str(case) not in sys.argv[1:]:
        continue
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
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["expanded_key_value_1_cross"], marks=pytest.mark.long),
        pytest.param([str(case) for case in CASES], marks=pytest.mark.slow),
    ],
    ids=["expanded", "all"],
)
def test_exported_models_return_the_same(tmp_path, names):
    assert set(names) <= set(map(str, CASES))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHECK, *names]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
