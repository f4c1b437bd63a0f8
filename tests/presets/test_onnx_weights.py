"""Programs of ONNX that find their weights in the weight file of a preset."""

import io

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from keras_attn_zoo.presets.onnx_weights import StoredWeights
from keras_attn_zoo.presets.weight_storage import compact, expanded

pytestmark = pytest.mark.one_backend
RNG = np.random.default_rng(0)
WEIGHTS = {
    "matrix": RNG.standard_normal((32, 40)),
    "heads": RNG.standard_normal((40, 4, 16)),
    "bias": RNG.standard_normal(160),
    "small": RNG.standard_normal(3),
}


@pytest.fixture(params=["int8", "float16"])
def stored(tmp_path, request):
    """A weight file, and its weights as Keras reads them."""
    file = io.BytesIO()
    with h5py.File(file, "w") as target:
        for name, values in WEIGHTS.items():
            target[f"layers/{name}"] = values.astype("float32")
    path = tmp_path / "model.weights.h5"
    path.write_bytes(compact(file, request.param))
    with h5py.File(io.BytesIO(expanded(path))) as source:
        return path, {name: source[f"layers/{name}"][()].astype("float32") for name in WEIGHTS}


def program(path, tensors):
    """Write a program that returns its tensors, by name."""
    made = [numpy_helper.from_array(np.ascontiguousarray(values), name) for name, values in tensors.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_"], doc_string="what it is") for name in tensors]
    outputs = [helper.make_tensor_value_info(f"{name}_", 1, values.shape) for name, values in tensors.items()]
    graph = helper.make_graph(nodes, "program", [], outputs, made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def test_tensors_come_from_the_weight_file_and_are_the_same(stored, tmp_path):
    path, weights = stored
    tensors = {
        **weights,
        "transposed": weights["matrix"].T,
        "reshaped": weights["heads"].reshape(40, 64),
        "row": weights["bias"][None],
        "both": weights["matrix"].T.reshape(20, 64),
        "another": RNG.standard_normal((20, 30)).astype("float32"),
    }
    program(tmp_path / "program.onnx", tensors)
    StoredWeights(path, path.name).use_in(tmp_path / "program.onnx")
    found = onnxruntime.InferenceSession(tmp_path / "program.onnx").run(None, {})
    for (name, values), ours in zip(tensors.items(), found, strict=True):
        np.testing.assert_array_equal(ours, values, err_msg=name)
    model = onnx.load(tmp_path / "program.onnx", load_external_data=False)
    inside = {one.name for one in model.graph.initializer if not one.external_data and one.data_type == 1}
    assert inside == {"small", "another"}
    assert not any(node.doc_string for node in model.graph.node)


def test_a_weight_that_stands_in_pieces_stays_in_the_program(tmp_path):
    values = WEIGHTS["matrix"].astype("float16")
    with h5py.File(tmp_path / "weights.h5", "w") as file:
        file.create_dataset("matrix", data=values, chunks=(8, 8), compression="gzip")
        file.attrs["storage"] = "float16"
    program(tmp_path / "program.onnx", {"matrix": values.astype("float32")})
    StoredWeights(tmp_path / "weights.h5", "weights.h5").use_in(tmp_path / "program.onnx")
    (ours,) = onnxruntime.InferenceSession(tmp_path / "program.onnx").run(None, {})
    np.testing.assert_array_equal(ours, values)
