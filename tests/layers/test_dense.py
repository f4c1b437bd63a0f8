"""Linear maps of layers: what is prepared of them for inference."""

import pytest

from keras_attn_zoo.kernels import jax_cpu
from keras_attn_zoo.layers.base.dense import Dense
from tests.layers.calls import BACKEND


@pytest.mark.parametrize("quantized", [False, True])
def test_a_kernel_with_lora_is_not_prepared(quantized, monkeypatch):
    """What LoRA adds would be missing; without it, JAX prepares kernels on a processor that gains from it."""
    monkeypatch.setattr(jax_cpu, "is_intel", lambda: True)
    monkeypatch.setattr(jax_cpu, "integers_are_slow", lambda: True)
    layer = Dense(4)
    layer.build((None, 6))
    if quantized:
        layer.quantize("int8")
    assert layer.preparation(rows=8) == ("transposed" if BACKEND == "jax" else None)
    layer.enable_lora(2)
    assert layer.preparation(rows=8) is None
