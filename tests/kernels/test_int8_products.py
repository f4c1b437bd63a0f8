"""Products of kernels in int8 by JAX on a CPU: the integers and the roundings of Keras, in a faster form."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.quantizers import AbsMaxQuantizer, Int8QuantizationConfig

from keras_attn_zoo.kernels import jax_cpu, processor
from keras_attn_zoo.kernels.jax_cpu import unsigned_product
from keras_attn_zoo.kernels.known_weights import inference
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.heads import HeadMerge, HeadProjection
from tests.layers.calls import BACKEND, compiled

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
WIDTH, HEADS, DIM = 6, 2, 3


def quantized(kind="float32", config=None):
    """A layer of every class, in int8, and a shape of its inputs without the first axis."""
    options = {"dtype": kind, "bias_initializer": "random_normal"}
    for layer, shape in (
        (Dense(4, activation="relu", **options), (5, WIDTH)),
        (Dense(4, use_bias=False, dtype=kind), (WIDTH,)),
        (HeadProjection(HEADS, DIM, **options), (5, WIDTH)),
        (HeadMerge(WIDTH, **options), (HEADS, 5, DIM)),
    ):
        layer.build((None, *shape))
        layer.quantize(None if config else "int8", config=config)
        yield layer, shape


@pytest.fixture
def calls(monkeypatch):
    """The shapes of the rows that go through `unsigned_product`, which is thought to be faster."""
    found = []

    def product(x, kernel):
        found.append(x.shape)
        return unsigned_product(x, kernel)

    monkeypatch.setattr(jax_cpu, "uses_unsigned", lambda: True)
    monkeypatch.setattr(jax_cpu, "unsigned_product", product)
    return found


@pytest.mark.parametrize("inputs", [1, 7, 512])
@pytest.mark.parametrize("rows", [1, 2, 5, 33])
@pytest.mark.parametrize("looped", [False, True], ids=["once", "in_loop"])
def test_every_sum_of_products_is_exact(rows, inputs, looped):
    rng = np.random.default_rng(0)
    x, kernel = (rng.integers(-128, 128, shape).astype("int8") for shape in ((3, rows, inputs), (inputs, 9)))
    # The most that a sum can be, on either side.
    x[0, 0], x[1, -1], kernel[:, 0], kernel[:, 1] = -128, 127, -128, 127

    def run(x, kernel):
        def step(i, found):
            return ops.slice_update(found, (i, 0, 0), unsigned_product(x[i], kernel)[None])

        if looped:
            return ops.fori_loop(0, 3, step, ops.zeros((3, rows, 9), dtype="int32"))
        return ops.stack([unsigned_product(one, kernel) for one in x])

    found = compiled(run, to_arrays=False)(x, kernel)
    assert keras.backend.standardize_dtype(found.dtype) == "int32"
    np.testing.assert_array_equal(found, x.astype("int64") @ kernel.astype("int64"))


@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("rows", [1, 4])
def test_layers_give_the_result_of_keras_product(rows, kind, calls):
    for layer, shape in quantized(kind):
        x = np.random.default_rng(0).normal(size=(rows, *shape)).astype("float32")

        def run(x, layer=layer):
            with inference():
                return layer(x)

        calls.clear()
        wanted = compiled(layer)(x)
        assert calls == []
        found = compiled(run)(x)
        assert calls == [(x.size // WIDTH, WIDTH)]
        assert np.abs(wanted).max() > 0.1
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if kind == "float32" else 0.01, atol=1e-6)


def test_what_keras_alone_does_is_left_to_it(calls):
    """LoRA, rows that stay in floating point or are rounded in another way."""

    class Other(AbsMaxQuantizer):
        def __call__(self, x, axis=None, to_numpy=False):
            rounded, scale = super().__call__(x, axis, to_numpy)
            return ops.cast(rounded, "int32"), scale

    def seen(layer, shape):
        x = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
        assert np.isfinite(compiled(inference()(lambda x: layer(x)))(x)).all()
        return calls

    for activation in (None, Other(output_dtype="int32")):
        for layer, shape in quantized(config=Int8QuantizationConfig(activation_quantizer=activation)):
            assert seen(layer, shape) == []
    for layer, shape in quantized():
        layer.enable_lora(1)
        assert seen(layer, shape) == []


@pytest.mark.parametrize(
    ("flags", "unsigned"),
    [
        ("avx2 avx512f avx512_vnni", True),
        ("avx2 avx512f avx512_vnni amx_int8", False),
        ("avx2 avx_vnni", False),
        ("avx2 avx512f", False),
        ("", False),
    ],
)
def test_on_which_processors_it_is_faster(flags, unsigned, monkeypatch):
    import jax

    monkeypatch.setattr(processor, "_description", lambda: f"vendor_id\t: GenuineIntel\nflags\t\t: {flags}\n")
    for version, computes in (((0, 10, 1), True), ((0, 11, 0), True), ((0, 10, 0), False), ((0, 4, 38), False)):
        monkeypatch.setattr(jax, "__version_info__", version)
        assert jax_cpu.uses_unsigned() is (unsigned and computes)
