"""Kernels that a search has turned: which products read them, and that they are the same products."""

import keras
import numpy as np
import pytest

from keras_attn_zoo.kernels import int8, small_batch_products
from keras_attn_zoo.layers.base.heads import HeadMerge, HeadProjection
from keras_attn_zoo.layers.base.products import Dense, repeated, turned
from keras_attn_zoo.support import processor
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
def test_on_which_processors_columns_are_faster(vendor, flags, faster, monkeypatch):
    monkeypatch.setattr(processor, "_description", lambda: f"vendor_id\t: {vendor}\nflags\t\t: {flags}\n")
    assert small_batch_products.columns_are_faster() is faster


@pytest.mark.parametrize(
    ("avx512", "filled"),
    [
        (True, {1: 1, 3: 4, 9: 16, 16: 16, 17: 17, 22: 32, 24: 32, 33: 33, 43: 64, 50: 64, 64: 64}),
        (False, {1: 1, 3: 4, 9: 16, 16: 16, 17: 17, 24: 24, 25: 32, 28: 32, 40: 40, 44: 48, 50: 50, 60: 64, 64: 64}),
    ],
    ids=["with_avx512", "without_avx512"],
)
def test_to_which_numbers_of_rows_others_are_filled_up(avx512, filled, monkeypatch):
    monkeypatch.setattr(small_batch_products, "has_avx512", lambda: avx512)
    assert {rows: small_batch_products.filled_up(rows) for rows in filled} == filled
    x = np.random.default_rng(0).integers(-3, 4, (2, 64, 5)).astype("float32")
    for rows in filled:
        np.testing.assert_array_equal(small_batch_products.columns_product(x[0, :rows], x[1]), x[0, :rows] @ x[1].T)


@pytest.mark.parametrize("faster", [True, False], ids=["columns", "rows"])
@pytest.mark.parametrize("kind", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("rows", [1, 2, 5, 50, 64, 65, 128, 129])
def test_which_products_read_it(rows, kind, faster, monkeypatch):
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: faster)
    few = 128 if kind == "mixed_bfloat16" else 64 * faster
    for layer, shape in maps(kind):
        x = np.random.default_rng(0).integers(-2, 3, (rows, *shape)).astype("float32")
        inputs, kernel = x.reshape(rows, -1), keras.ops.convert_to_numpy(layer._kernel)
        # Another one, to tell which was read; its products are exact.
        given = np.random.default_rng(1).integers(-2, 3, (kernel.size // WIDTH, WIDTH)).astype("float32")
        kept = {id(layer._kernel): keras.ops.cast(given, layer.compute_dtype)}

        def run(x, layer=layer, kept=kept):
            with turned(kept), repeated():
                return keras.ops.cast(layer(x), "float32")

        wanted = inputs @ (given.T if 1 < rows <= few else kernel.reshape(WIDTH, -1)) + 1
        np.testing.assert_allclose(compiled(run)(x).reshape(wanted.shape), wanted, rtol=0.02, atol=0.06)
        exact = 1e-6 if kind == "float32" else 0
        if 1 < rows <= few:
            np.testing.assert_allclose(compiled(run)(x).reshape(wanted.shape), wanted, rtol=0, atol=exact)
        with turned(kept):
            outside = keras.ops.convert_to_numpy(keras.ops.cast(layer(x), "float32"))
        wanted = inputs @ kernel.reshape(WIDTH, -1) + 1
        np.testing.assert_allclose(outside.reshape(wanted.shape), wanted, rtol=0.02, atol=0.06)


@pytest.mark.parametrize(
    ("vendor", "flags", "slow"),
    [
        ("AuthenticAMD", "fma avx2", True),
        ("AuthenticAMD", "avx2 avx512f avx512_vnni", False),
        ("GenuineIntel", "avx2 avx512f", True),
        ("GenuineIntel", "avx2 avx_vnni", True),
        ("GenuineIntel", "avx2 avx512f avx512_vnni", False),
        ("GenuineIntel", "avx2 avx512f amx_int8", False),
        ("", "", False),
    ],
)
def test_on_which_processors_integers_are_slow(vendor, flags, slow, monkeypatch):
    monkeypatch.setattr(processor, "_description", lambda: f"vendor_id\t: {vendor}\nflags\t\t: {flags}\n")
    assert int8.integers_are_slow() is slow
    for layer, _ in maps("float32"):
        assert not layer.may_float()
        layer.quantize("int8")
        assert layer.may_float() is slow
        layer.enable_lora(1)
        assert not layer.may_float() and not layer.may_turn()


@pytest.mark.parametrize("rows", [5, 65])
def test_a_kernel_of_int8_is_read_in_floating_point_where_that_was_made(rows, monkeypatch):
    """In a loop, Wᵀ if there are few rows; what was not made leaves the product of integers, which rounds the rows."""
    monkeypatch.setattr(small_batch_products, "columns_are_faster", lambda: True)
    for layer, shape in maps("float32"):
        x = np.random.default_rng(0).normal(size=(rows, *shape)).astype("float32")
        layer.quantize("int8")
        whole = layer.float_of(layer._kernel.value)
        kept = {id(layer._kernel): whole}, {id(layer._kernel): 2 * whole}

        def run(x, layer=layer, kept=kept):
            with turned({name: keras.ops.transpose(one) for name, one in kept[1].items()}, kept[0]), repeated():
                return layer(x)

        exact = x.reshape(rows, -1).astype("float64") @ keras.ops.convert_to_numpy(whole).astype("float64")
        wanted = exact * (2 if rows == 5 else 1) + 1
        np.testing.assert_allclose(compiled(run)(x).reshape(wanted.shape), wanted, rtol=0, atol=1e-5)
        with turned({}):
            rounded = keras.ops.convert_to_numpy(layer(x)).reshape(wanted.shape)
        assert 1e-4 < np.abs(rounded - exact - 1).max() < 0.1


@pytest.mark.parametrize(
    ("version", "vendor", "slow"),
    [((0, 8, 0), "GenuineIntel", True), ((0, 8, 1), "GenuineIntel", False), ((0, 8, 0), "", False)],
)
def test_of_which_versions_integers_are_slow(version, vendor, slow, monkeypatch):
    import jax

    flags = f"vendor_id\t: {vendor}\nflags\t\t: avx512f avx512_vnni\n"
    monkeypatch.setattr(processor, "_description", lambda: flags)
    monkeypatch.setattr(jax, "__version_info__", version)
    assert int8.integers_are_slow() is slow
