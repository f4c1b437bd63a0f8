"""Weight files that refer to other files, or claim more than they hold."""

import json
import resource
import struct
from pathlib import Path

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest

from keras_attn_zoo.layers import MultiHeadAttention
from keras_attn_zoo.presets.weight_storage import SCALES, expanded, readable_shapes
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.support.checksums import CHECKSUMS
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import read_json, write_json
from keras_attn_zoo.translators import Translator
from keras_attn_zoo.translators.marian.checkpoint import read_safetensors
from tests import tiny

pytestmark = pytest.mark.one_backend

WEIGHTS = "model.weights.h5"


@pytest.fixture(params=["float32", "int8"])
def preset(request, tmp_path):
    """A preset without checksums, whose matrices are large enough for int8."""
    tiny.translator(embedding_dim=32, hidden_dim=48).save_to_preset(tmp_path / "preset", storage=request.param)
    (tmp_path / "preset" / CHECKSUMS).unlink()
    return tmp_path / "preset"


def largest(file):
    """The name of the largest weight."""
    sizes = {}
    file.visititems(lambda name, item: sizes.update({name: item.size}) if isinstance(item, h5py.Dataset) else None)
    return max(sizes, key=sizes.get)


def external(file, name, secret, other):
    old, attributes = file[name], dict(file[name].attrs)
    shape, dtype, size = old.shape, old.dtype, old.nbytes
    del file[name]
    file.create_dataset(name, shape=shape, dtype=dtype, external=[(str(secret), 0, size)]).attrs.update(attributes)


def virtual(file, name, secret, other):
    old = file[name]
    layout = h5py.VirtualLayout(old.shape, old.dtype)
    layout[:] = h5py.VirtualSource(str(other), "it", shape=old.shape)
    del file[name]
    file.create_virtual_dataset(name, layout)


def linked(file, name, secret, other):
    del file[name]
    file[name] = h5py.ExternalLink(str(other), "it")


def soft(file, name, secret, other):
    file.move(name, "elsewhere")
    file[name] = h5py.SoftLink("/elsewhere")


def loop(file, name, secret, other):
    file[f"{name.split('/')[0]}/loop"] = file["/"]


@pytest.mark.long
@pytest.mark.parametrize(
    "preset, scales", [("float32", False), ("int8", False), ("int8", True)], indirect=["preset"], ids=str
)
@pytest.mark.parametrize("harm", [external, virtual, linked, soft, loop])
def test_what_stands_elsewhere_is_not_read(preset, harm, scales):
    secret, other = preset.with_name("secret"), preset.with_name("other.h5")
    secret.write_bytes(b"secret" * 10_000)
    with h5py.File(preset / WEIGHTS, "r+") as file:
        name = f"{SCALES}/{largest(file)}" if scales else largest(file)
        with h5py.File(other, "w") as source:
            source["it"] = np.ones_like(file[name][()])
        harm(file, name, secret, other)
    for load in (Translator.from_preset, load_translator):
        with pytest.raises(UserError, match=r"model\.weights\.h5 (reads another file for|has a link in place of) "):
            load(preset)
    # The readers themselves refuse too, whoever calls them.
    for read in (readable_shapes, expanded, tiny.backbone().load_weights):
        with pytest.raises(UserError, match="do not use it"):
            read(preset / WEIGHTS)
    with pytest.raises(UserError, match="do not use it"):
        tiny.backbone().load_weights(preset / WEIGHTS, skip_mismatch=True)


@pytest.mark.parametrize(
    "values",
    [np.array([b"x"], object), np.zeros(3, [("a", "f4")]), np.ones(3, "c8"), np.ones(3, bool), h5py.Empty("f4")],
    ids=["strings", "compound", "complex", "booleans", "nothing"],
)
def test_weights_are_numbers(preset, values):
    with h5py.File(preset / WEIGHTS, "r+") as file:
        name = largest(file)
        del file[name]
        file.create_dataset(name, data=values, dtype=h5py.string_dtype() if values.dtype == object else None)
    with pytest.raises(UserError, match=r"model\.weights\.h5 has no numbers in .*: do not use it\.$"):
        Translator.from_preset(preset)


def test_a_storage_of_a_newer_version_is_refused(preset):
    for storage in ("int4", [1, 2]):
        with h5py.File(preset / WEIGHTS, "r+") as file:
            file.attrs["storage"] = storage
        with pytest.raises(UserError, match=r"is stored as .*, which this version of keras-attn-zoo cannot read"):
            Translator.from_preset(preset)


def configure(preset, change):
    for name in ("config.json", "task.json"):
        tree = read_json(preset / name)
        change(tree["config"]["backbone"]["config"] if name == "task.json" else tree["config"])
        write_json(preset / name, tree)


def test_a_small_file_cannot_claim_a_large_matrix(preset):
    rows = 40_000_000
    with h5py.File(preset / WEIGHTS, "r+") as file:
        name = largest(file)
        del file[name]
        file.create_dataset(name, shape=(rows, 32), dtype="i1", chunks=(4096, 32))
    configure(preset, lambda config: config.update(source_vocabulary_size=rows, target_vocabulary_size=rows))
    with pytest.raises(UserError, match=r"claims to hold 1,2[0-9,]+ bytes of weights, but has only [0-9]+,[0-9]+:"):
        Translator.from_preset(preset)


@pytest.mark.long
@pytest.mark.parametrize(
    "initializer",
    [
        *("glorot_uniform", "zeros", "IdentityInitializer"),
        keras.initializers.serialize(keras.initializers.Orthogonal()),
        keras.initializers.serialize(keras.initializers.Constant(2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("serialised", [False, True])
def test_a_configuration_cannot_make_more_numbers_than_the_weights_are(preset, initializer, serialised):
    attention = {"attention": "multi_head", "key_dim": 10**7, "kernel_initializer": initializer}
    if serialised:
        attention = keras.layers.serialize(MultiHeadAttention(2, 10**7))
        attention["config"]["kernel_initializer"] = initializer
    configure(preset, lambda config: config.update(cross_attention=attention))
    with pytest.raises(
        UserError, match=r"makes a model of more than [0-9,]{11,} numbers, but its weights are only [0-9]+,[0-9]+:"
    ) as error:
        Translator.from_preset(preset)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("setting", ["encoder_sequence_length", "decoder_sequence_length"])
def test_sentences_have_a_length_that_fits_in_memory(preset, setting):
    tree = read_json(preset / "task.json")
    tree["config"]["preprocessor"]["config"][setting] = 10**9
    write_json(preset / "task.json", tree)
    with pytest.raises(UserError, match=rf"{setting}=1,000,000,000, not from 2 to 100,000"):
        Translator.from_preset(preset)


@pytest.mark.parametrize("name", ["../outside.weights.h5", "/outside.weights.h5", "config.json", 3])
def test_divided_weights_stand_in_the_preset(preset, name):
    (preset / WEIGHTS).rename(preset / "model_00000.weights.h5")
    write_json(preset / "model.weights.json", {"weight_map": {"layers": [name]}})
    with pytest.raises(UserError, match=r"model\.weights\.json of the preset .* names .*, no file of weights in it"):
        Translator.from_preset(preset)


def safetensors(header, size):
    """A file of safetensors, as its specification says."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def entry(begin, end, dtype="BF16"):
    return {"dtype": dtype, "shape": [(end - begin) // 2], "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        safetensors({"a": entry(0, 64)}, 63),
        # Copies of one tensor would take up the memory of any number of them.
        safetensors({f"weight {number}": entry(0, 64) for number in range(200)}, 64),
        safetensors({"a": {**entry(0, 8), "shape": [1e300]}}, 8),
        safetensors({"a": {**entry(0, 8), "dtype": "\x1b[31m"}}, 8),
    ],
)
def test_damaged_safetensors_are_refused_in_a_line(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"model\.safetensors is truncated or damaged \(.*\): download it again\.$"
    ) as error:
        read_safetensors(path)
    assert str(error.value).isprintable() and len(str(error.value)) < 500


def test_tensors_of_safetensors_are_read_where_they_are_used(tmp_path):
    """A sparse file would fill the memory."""
    values, size = np.arange(8, dtype="<f4").reshape(2, 4), 16 * 2**30
    halves = values.astype(ml_dtypes.bfloat16)
    header = {"a": {"dtype": "F64", "shape": [2, size // 16], "data_offsets": [0, size]}, "b": entry(size, size + 16)}
    header["b"]["shape"] = [2, 4]
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(header, 0))
    with path.open("r+b") as file:
        file.seek(size, 2)
        file.write(halves.tobytes())
    before = occupied()
    found = read_safetensors(path)
    assert found["a"].size == size // 8 and (np.asarray(found["b"]) == halves).all()
    assert occupied() - before < 2**27


def occupied():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_safetensors_of_other_numbers_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors({"one": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}, 8))
    with pytest.raises(UserError, match=r"model\.safetensors has one in the type I64, which no weight has"):
        read_safetensors(path)


@pytest.mark.parametrize("content", [[1], {"weight_map": [1]}, {}])
def test_an_index_of_weights_is_an_object(preset, content):
    (preset / WEIGHTS).rename(preset / "model_00000.weights.h5")
    write_json(preset / "model.weights.json", content)
    with pytest.raises(UserError, match=r"model\.weights\.json of the preset .* has no object called weight_map"):
        Translator.from_preset(preset)
