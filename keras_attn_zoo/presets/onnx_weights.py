"""Programs of ONNX whose weights stand in the weight file of a preset, where several programs share them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from keras_attn_zoo.presets.weight_storage import SCALES, datasets, is_weight
from keras_attn_zoo.support.files import PathLike

# Smaller tensors stay in the program.
_SMALLEST = 128


class StoredWeights:
    """The weights of a file, by their values.

    HDF5 keeps a small dataset in one piece and uncompressed, so that a program of ONNX finds it at an offset: as
    external data, which a graph turns into float32, once, when it is loaded.

    Args:
        path: the weight file of a preset, stored in float16 or int8.
        location: where a program finds it.
    """

    def __init__(self, path: PathLike, location: str) -> None:
        self._location = location
        self._known: dict[bytes, tuple[str, bool]] = {}
        self._places: dict[str, tuple[int, np.dtype, tuple[int, ...]]] = {}
        with h5py.File(path) as file:
            found = datasets(file, path)
            for name, item in found.items():
                if item.id.get_offset() is None:
                    # Of several pieces, or compressed.
                    continue
                self._places[name] = item.id.get_offset(), item.dtype, item.shape
                if not is_weight(name, item):
                    continue
                scales = found.get(f"{SCALES}/{name}")
                values = (item[()] if scales is None else item[()] * scales[()]).astype("float32")
                self._known.setdefault(values.tobytes(), (name, False))
                if values.ndim == 2:
                    self._known.setdefault(values.T.tobytes(), (name, True))

    def use_in(self, program: Path) -> None:
        """Replace the tensors of a program that stand in the file, and leave out what describes it alone."""
        import onnx

        model = onnx.load(program)
        graph, nodes, kept = model.graph, [], []
        outside: dict[str, Any] = {}
        for tensor in graph.initializer:
            name, transposed = self._known.get(onnx.numpy_helper.to_array(tensor).tobytes(), (None, False))
            if name is None or np.prod(tensor.dims) < _SMALLEST:
                kept.append(tensor)
            else:
                nodes += self._restored(tensor, name, transposed, outside)
        nodes += graph.node
        for one in nodes:
            del one.metadata_props[:]
            one.doc_string = ""
        for field, values in (("initializer", [*kept, *outside.values()]), ("node", nodes), ("value_info", [])):
            del getattr(graph, field)[:]
            getattr(graph, field).extend(values)
        onnx.save(model, program)

    def _restored(self, tensor, name, transposed, outside):
        """The nodes that make a tensor of what stands in the file; adds what they read to `outside`."""
        import onnx

        def stored(part):
            offset, dtype, shape = self._places[part]
            one = onnx.TensorProto(name=part, dims=shape, data_type=onnx.helper.np_dtype_to_tensor_dtype(dtype))
            one.data_location = onnx.TensorProto.EXTERNAL
            size = int(np.prod(shape)) * dtype.itemsize
            for key, value in (("location", self._location), ("offset", offset), ("length", size)):
                one.external_data.add(key=key, value=str(value))
            outside[part] = one
            return part

        nodes, dims, scales = [], tuple(tensor.dims), f"{SCALES}/{name}"
        shape = self._places[name][2]

        def add(kind, *inputs, **attributes):
            nodes.append(onnx.helper.make_node(kind, inputs, [f"{tensor.name}.{len(nodes)}"], **attributes))
            return nodes[-1].output[0]

        x = add("Cast", stored(name), to=1)
        if scales in self._places:
            x = add("Mul", x, stored(scales))
        if transposed:
            x, shape = add("Transpose", x, perm=[1, 0]), shape[::-1]
        if shape != dims:
            target = f"{tensor.name}.shape"
            outside[target] = onnx.numpy_helper.from_array(np.array(dims, "int64"), target)
            x = add("Reshape", x, target)
        nodes[-1].output[0] = tensor.name
        return nodes
