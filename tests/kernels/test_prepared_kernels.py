"""Kernels prepared for inference: on which processors, which products read them, and that these are the same."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.kernels import PreparedWeight, inference, jax_cpu, processor
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.layers.base.heads import HeadMerge, HeadProjection
from tests.layers.calls import BACKEND, compiled

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="of JAX alone")
WIDTH, HEADS, DIM = 6, 2, 3


def maps(kind):
    """A layer of every class that has such a kernel, and a shape of its inputs without the first axis."""
    options = {"dtype": kind, "bias_initializer": "ones"}
    for layer, shape in (
        (Dense(4, **options), (WIDTH,)),
        (HeadProjection(HEADS, DIM, **options), (1, WIDTH)),
        (HeadMerge(WIDTH, **options), (HEADS, 1, DIM)),
    ):
        layer.build((None, *shape))
        yield layer, shape


@pytest.mark.parametrize(
    ("vendor", "flags", "faster"),
    [
        ("GenuineIntel", "avx2", True),
        ("GenuineIntel", "avx2 avx512f", True),
        ("AuthenticAMD", "fma avx2", True),
        ("AuthenticAMD", "avx2 avx512f avx512_bf16", False),
        ("", "", False),
    ],
)
def test_on_which_processors_small_batches_gain(vendor, flags, faster, monkeypatch):
    monkeypatch.setattr(processor, "_description", lambda: f"vendor_id\t: {vendor}\nflags\t\t: {flags}\n")
    for kind, most in (("float32", 64), ("bfloat16", 128)):
        gains = [rows for rows in (1, 2, 64, 65, 128, 129) if jax_cpu.gains_from_transposing(kind, rows)]
        assert gains == [rows for rows in (2, 64, 65, 128) if faster and rows <= most]
    assert not jax_cpu.gains_from_transposing("float64", 2)


@pytest.mark.parametrize(
    ("avx512", "filled"),
    [
        (True, {1: 1, 3: 4, 9: 16, 16: 16, 17: 17, 22: 32, 24: 32, 33: 33, 43: 64, 50: 64, 64: 64}),
        (False, {1: 1, 3: 4, 9: 16, 16: 16, 17: 17, 24: 24, 25: 32, 28: 32, 40: 40, 44: 48, 50: 50, 60: 64, 64: 64}),
    ],
    ids=["with_avx512", "without_avx512"],
)
def test_to_which_numbers_of_rows_others_are_filled_up(avx512, filled, monkeypatch):
    monkeypatch.setattr(jax_cpu, "has_avx512", lambda: avx512)
    assert {rows: jax_cpu.fast_columns(rows) for rows in filled} == filled
    x = np.random.default_rng(0).integers(-3, 4, (2, 64, 5)).astype("float32")
    for rows in filled:
        found = jax_cpu.small_batch_product(keras.ops.convert_to_tensor(x[0, :rows]), x[1], None)
        np.testing.assert_array_equal(found, x[0, :rows] @ x[1].T)


@pytest.fixture
def gains(monkeypatch):
    """A processor that gains from transposed kernels, and one whose products of integers are slow."""
    monkeypatch.setattr(processor, "_description", lambda: "vendor_id\t: AuthenticAMD\nflags\t\t: fma avx2\n")


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("rows", [1, 5, 64, 65, 128, 129])
def test_products_read_what_was_prepared(rows, kind, transposed, gains):
    for layer, shape in maps(kind):
        x = np.random.default_rng(0).integers(-2, 3, (rows, *shape)).astype("float32")
        inputs, kernel = x.reshape(rows, -1), keras.ops.convert_to_numpy(layer.stored_kernel)
        # Another one, to tell that it was read; its products are exact.
        given = np.random.default_rng(1).integers(-2, 3, (WIDTH, kernel.size // WIDTH)).astype("float32")
        matrix = keras.ops.cast(given.T if transposed else given, layer.compute_dtype)

        def run(x, layer=layer, matrix=matrix):
            with inference({id(layer.stored_kernel): PreparedWeight(matrix, transposed)}):
                read = layer(x)
            return read, layer(x)

        wanted = inputs @ given + 1
        found, outside = (part.reshape(wanted.shape) for part in compiled(run)(x))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 if kind == "float32" else 0)
        np.testing.assert_allclose(outside, inputs @ kernel.reshape(WIDTH, -1) + 1, rtol=0.02, atol=0.06)


@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
def test_a_prepared_kernel_is_that_of_the_layer(kind, gains):
    for layer, _ in maps(kind):
        kernel = keras.ops.convert_to_numpy(layer.stored_kernel).reshape(WIDTH, -1)
        assert layer.preparation(rows=None) is None and layer.preparation(rows=500) is None
        assert layer.preparation(rows=8) == "transposed"
        for how, wanted in (("transposed", kernel.T), ("dequantized", kernel)):
            matrix, transposed = layer.prepared_kernel(how)
            assert transposed == (how == "transposed")
            assert keras.backend.standardize_dtype(matrix.dtype) == layer.compute_dtype
            wanted = keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.cast(wanted, matrix.dtype), "float32"))
            np.testing.assert_array_equal(keras.ops.convert_to_numpy(keras.ops.cast(matrix, "float32")), wanted)


def test_on_which_processors_integers_are_slow(monkeypatch):
    plain, integers, adapted = ([layer for layer, _ in maps("float32")] for _ in range(3))
    for layer in (*integers, *adapted):
        layer.quantize("int8")
    for layer in adapted:
        layer.enable_lora(1)
    for vendor, flags, slow in (
        ("AuthenticAMD", "fma avx2", True),
        ("AuthenticAMD", "avx2 avx512f avx512_vnni", False),
        ("GenuineIntel", "avx2 avx512f", True),
        ("GenuineIntel", "avx2 avx_vnni", True),
        ("GenuineIntel", "avx2 avx512f avx512_vnni", False),
        ("GenuineIntel", "avx2 avx512f amx_int8", False),
        ("", "", False),
    ):
        description = f"vendor_id\t: {vendor}\nflags\t\t: {flags}\n"
        monkeypatch.setattr(processor, "_description", lambda description=description: description)
        assert jax_cpu.integers_are_slow() is slow, description
        assert {layer.preparation(rows=None) for layer in integers} == {"dequantized" if slow else None}, description
        assert {layer.preparation(rows) for layer in adapted for rows in (None, 8)} == {None}, description
        assert {layer.preparation(rows=None) for layer in plain} == {None}, description


@pytest.mark.parametrize("rows", [5, 65])
def test_a_kernel_of_int8_is_read_in_floating_point_where_integers_are_slow(rows, gains):
    """Rows are not rounded then; unprepared, they are."""
    for layer, shape in maps("float32"):
        x = np.random.default_rng(0).normal(size=(rows, *shape)).astype("float32")
        layer.quantize("int8")
        whole = keras.ops.convert_to_numpy(layer.prepared_kernel("dequantized").matrix).astype("float64")
        exact = x.reshape(rows, -1).astype("float64") @ whole + 1
        for how in ("dequantized", "transposed"):
            kept = {id(layer.stored_kernel): layer.prepared_kernel(how)}

            def run(x, layer=layer, kept=kept):
                with inference(kept):
                    return layer(x)

            np.testing.assert_allclose(compiled(run)(x).reshape(exact.shape), exact, rtol=0, atol=1e-5)
        rounded = compiled(inference()(lambda x, layer=layer: layer(x)))(x).reshape(exact.shape)
        assert 1e-4 < np.abs(rounded - exact).max() < 0.1


@pytest.mark.parametrize(
    ("version", "vendor", "slow"),
    [((0, 8, 0), "GenuineIntel", True), ((0, 8, 1), "GenuineIntel", False), ((0, 8, 0), "", False)],
)
def test_of_which_versions_integers_are_slow(version, vendor, slow, monkeypatch):
    import jax

    flags = f"vendor_id\t: {vendor}\nflags\t\t: avx512f avx512_vnni\n"
    monkeypatch.setattr(processor, "_description", lambda: flags)
    monkeypatch.setattr(jax, "__version_info__", version)
    assert jax_cpu.integers_are_slow() is slow
