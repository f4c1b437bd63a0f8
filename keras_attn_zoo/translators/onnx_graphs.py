"""A body as two programs of tensors, which PyTorch's exporter writes as ONNX: its encoder, and a step of a search.

`start_search` gives trees of constants, memory and state, `search_step` takes them. Flattened, their leaves become
inputs and outputs. Constants that no sentence changes become part of the step. Whatever has a place for every target
position has none at first, and one more after each step.

Of the ways to ONNX, PyTorch's exporter leaves all lengths open and takes nodes of ONNX, so that an encoder's GRU is one
node; the encoder of the preset `transformer_tatoeba_de_en` has 201 nodes. tf2onnx 1.17 writes 394 for it, and fails at
an encoder's loop over positions; jax2onnx 0.17 fails where lengths are open.
"""

import contextlib
import dataclasses
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras import ops, tree

from keras_attn_zoo.bodies.backbone import TranslationBackbone
from keras_attn_zoo.kernels import inference
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators.search import suppressed_logits

# The newest that PyTorch writes; every onnxruntime that the extra `onnx` allows reads it.
_OPSET = 23
# Two sizes of a search, by which the axes of its tensors are told apart.
_SIZES = {"batch": (2, 3), "source": (4, 5), "past": (6, 7)}
# The sizes of an example; a number of positions, or of anything else, is open if the example has at least 2.
_EXAMPLES: dict[int | str, int] = {"batch": 2, "beams": 3, "source": 5, "rows": 7, "past": 4, "target": 6}


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A tensor of the trees of a search.

    Attributes:
        name: its place in the trees, with dots.
        role: "constant"; memory of a "sentence" or a "hypothesis"; or "state".
        axes: each the name of a size that is open, or a number; None if it is no tensor.
        dtype: its type.
    """

    name: str
    role: str
    axes: tuple[int | str, ...] | None
    dtype: str | None

    def grown(self) -> list[int]:
        """Return the axes of target positions."""
        return [i for i, axis in enumerate(self.axes or ()) if axis == "past"]

    def shape(self) -> list[int | str]:
        """Return the axes as the step takes them: with all hypotheses where there were sentences."""
        first = {"sentence": ["batch"], "hypothesis": ["batch", "beams"], "state": ["rows"]}[self.role]
        return [*first, *(self.axes or ())[1:]]

    def before_the_first(self) -> list[int | str]:
        """Return the axes as the encoder returns them: a row for each sentence, and no target position yet."""
        return ["batch", *(0 if axis == "past" else axis for axis in (self.axes or ())[1:])]


class SearchPrograms:
    """The programs of a body, for a search without constraints.

    Args:
        body: a body under PyTorch.
        lengths: maximum tokens of a sentence, and of a translation, start and end included.
        top_k: see `TranslationBackbone.start_search`.
        renormalize: whether probabilities sum to 1 without the body's `suppressed_tokens`.

    Attributes:
        memory, state: the leaves that the step takes; the encoder returns them in this order.
        trees: constants, memory and state of an example of two sentences.

    Raises:
        UserError: lengths below 8; a tensor whose size depends otherwise on those of sentences.
    """

    def __init__(
        self, body: TranslationBackbone, lengths: tuple[int, int], top_k: int | None, renormalize: bool
    ) -> None:
        if min(lengths) <= _SIZES["past"][1]:
            raise UserError(f"an export needs room for at least 8 tokens; received {min(lengths)}: set more.")
        self.body, self.lengths, self.top_k, self.renormalize = body, lengths, top_k, renormalize
        self._leaves = list(self._read_leaves())
        self.memory = [leaf for leaf in self._leaves if leaf.role in ("sentence", "hypothesis")]
        self.state = [leaf for leaf in self._leaves if leaf.role == "state"]
        self.trees = self._start(_ones(2, 5), _ones(2, 5, dtype="bool"), lengths[1])
        values = zip(self._leaves, tree.flatten(self.trees), strict=True)
        self._constants = [value for leaf, value in values if leaf.role == "constant"]

    def _start(self, token_ids, mask, length):
        return self.body.start_search(token_ids, mask, length, self.top_k)

    def _read_leaves(self) -> Iterator[Leaf]:
        """Tell the axes apart by two searches, which differ in all sizes."""
        names = {sizes: name for name, sizes in _SIZES.items()}
        first, second = (
            self._start(_ones(batch, source), _ones(batch, source, dtype="bool"), past)
            for batch, source, past in zip(*_SIZES.values(), strict=True)
        )
        pairs = zip(tree.flatten_with_path(first), tree.flatten(second), strict=True)
        for ((part, *path), value), other in pairs:
            name = ".".join(map(str, [("constants", "memory", "state")[part], *path]))
            if not hasattr(value, "shape"):
                yield Leaf(name, "constant", None, None)
                continue
            sizes = zip(map(int, value.shape), map(int, other.shape), strict=True)
            axes = tuple(a if a == b else names.get((a, b), "unknown") for a, b in sizes)
            if "unknown" in axes:
                raise UserError(f"a search of this translator has {name}, of a size that an export does not know.")
            of_sentence = "sentence" if "batch" in axes else "constant"
            role = [of_sentence, "hypothesis", "state"][part]
            yield Leaf(name, role, axes, ops.convert_to_numpy(value).dtype.name)

    def encode(self, token_ids: Any, mask: Any) -> list[Any]:
        """Return memory and state before the first position, from source ids and their mask."""
        found = zip(self._leaves, tree.flatten(self._start(token_ids, mask, self.lengths[1])), strict=True)
        outputs: dict[str, Any] = {}
        for leaf, x in found:
            for axis in leaf.grown():
                x = x.narrow(axis, 0, 0)
            outputs[leaf.name] = x
        return [outputs[leaf.name] for leaf in (*self.memory, *self.state)]

    def step(self, token_ids: Any, parents: Any, memory: list[Any], state: list[Any]) -> list[Any]:
        """Advance all hypotheses by a token.

        Args:
            token_ids: the last tokens, `(batch, beams)`.
            parents: the row of the state that each hypothesis goes on with, `(batch, beams)`.
            memory: of sentences `(batch, ...)`, of hypotheses `(batch, beams, ...)`.
            state: `(rows, ...)`, with any number of rows.

        Returns:
            log-probabilities `(batch, beams, vocabulary)`, attention `(batch, beams, heads, source)`, the next state.
        """
        batch, beams = token_ids.shape
        trees = self.unpacked(parents, memory, state)
        logits, scores, new = self.body.search_step(token_ids.reshape(-1), *trees)
        logits = suppressed_logits(self.body, logits, self.renormalize)
        # An output that is only reshaped would be copied.
        logits = logits.reshape(batch, beams, logits.shape[-1])
        return [
            ops.log_softmax(ops.cast(logits, "float32")) if self.renormalize else logits,
            ops.cast(scores, "float32").reshape(batch, beams, *scores.shape[1:]),
            *tree.flatten(new),
        ]

    def unpacked(self, parents: Any, memory: list[Any], state: list[Any]) -> tuple[Any, Any, Any]:
        """Return memory, state and constants as `search_step` takes them, from the tensors that `step` takes."""
        batch, beams = parents.shape
        given = {leaf.name: x for leaf, x in zip((*self.memory, *self.state), (*memory, *state), strict=True)}
        room = [given[leaf.name].shape[axis] + 1 for leaf in self.state for axis in leaf.grown()]
        constants = iter(self._constants)
        leaves = []
        for leaf in self._leaves:
            if leaf.role == "constant":
                x = next(constants)
                # Constants of more positions begin with those of fewer.
                for axis in leaf.grown() if room else ():
                    x = x.narrow(axis, 0, room[0])
            else:
                x = given[leaf.name]
            if leaf.role == "hypothesis":
                x = x.reshape(batch * beams, *x.shape[2:])
            elif leaf.role == "state":
                x = x.index_select(0, parents.reshape(-1))
                for axis in leaf.grown():
                    x = ops.pad(x, [(0, int(axis == i)) for i in range(len(x.shape))])
            leaves.append(x)
        constants_tree, memory_tree, state_tree = tree.pack_sequence_as(self.trees, leaves)
        return memory_tree, state_tree, constants_tree

    def write(self, encoder: Path, step: Path) -> None:
        """Write both programs as ONNX."""
        memory, state, names = self.examples()
        sources = [self.example(("batch", "source"), dtype) for dtype in ("int32", "bool")]
        # Of one tensor given twice, PyTorch would make one input.
        hypotheses = [self.example(("batch", "beams"), "int32") for _ in range(2)]
        write_program(self.encode, encoder, sources, ["encoder_token_ids", "encoder_padding_mask"], names)
        outputs = ["log_probs", "attention", *(next_name(leaf) for leaf in self.state)]
        inputs = ["token_ids", "parents", *names]
        write_program(self.step, step, [*hypotheses, memory, state], inputs, outputs, _append)

    def examples(self) -> tuple[list[Any], list[Any], list[str]]:
        """Return examples of memory and state, for `write_program`, and the names of all."""
        memory, state = (
            [self.example(leaf.shape(), leaf.dtype) for leaf in part] for part in (self.memory, self.state)
        )
        return memory, state, [leaf.name for leaf in (*self.memory, *self.state)]

    def example(self, axes: Sequence[int | str], dtype: str | None) -> tuple[Any, dict[int, Any]]:
        """Return a tensor of ones, and which of its axes are open."""
        from torch.export import Dim

        most = {"source": self.lengths[0], "past": self.lengths[1] - 1, "target": self.lengths[1]}
        dims = {i: Dim(axis, max=most.get(axis)) for i, axis in enumerate(axes) if isinstance(axis, str)}
        return _ones(*(_EXAMPLES.get(axis, axis) for axis in axes), dtype=dtype), dims


def next_name(leaf: Leaf) -> str:
    """Return what the step calls the next value of a part of the state."""
    return f"next_{leaf.name}"


def _ones(*sizes, dtype="int32"):
    return ops.ones(sizes, dtype=dtype)


def write_program(
    function: Callable,
    path: Path,
    examples: Sequence[Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    simplify: Callable[[Any], None] | None = None,
) -> None:
    """Write a function as ONNX, given pairs of a tensor and its open axes, or lists of such.

    `simplify` may change the program, an `onnx_ir.Model`, before it is written.
    """
    import torch

    class Program(torch.nn.Module):
        # The body is no part of it: PyTorch would give each layer a class of its own.
        def forward(self, *tensors):
            return tuple(function(*tensors))

    given, dims = (tuple([one[i] for one in x] if isinstance(x, list) else x[i] for x in examples) for i in range(2))
    with torch.no_grad(), inference(), silent():
        program = torch.export.export(
            Program(),
            given,
            dynamic_shapes=(dims,),
            strict=False,
            # What holds for all lengths but one, such as that of a matrix that is cut, would refuse that one.
            prefer_deferred_runtime_asserts_over_guards=True,
        )
        names = {"input_names": inputs, "output_names": outputs}
        written = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=_OPSET,
            # Their names; without them, axes are called s11 and the like.
            dynamic_shapes=dims,
            **names,
            verbose=False,
            external_data=False,
            custom_translation_table={torch.ops.aten.any.dim: _any, torch.ops.aten.any.dims: _any},
        )
        if simplify is not None:
            simplify(written.model)
        written.save(path)


def _any(x: Any, dim: int | Sequence[int], keepdim: bool = False) -> Any:
    """Reduce truth values in one node, where PyTorch writes three or four for each axis."""
    from onnxscript import opset23

    axes: Any = [dim] if isinstance(dim, int) else [*dim]
    return opset23.ReduceMax(x, axes, keepdims=int(keepdim))


def _append(model: Any) -> None:
    """Append what a step writes into a place that was just added: a choice by position takes three times as long."""
    import onnx_ir
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    for node in [node for node in model.graph if node.op_type == "Where"]:
        _, update, array = node.inputs
        pad = array.producer()
        if pad is None or pad.op_type != "Pad":
            continue
        pads: Any = onnx_ir.convenience.get_const_tensor(pad.inputs[1])
        before, (axis,) = pad.inputs[0], pads.numpy()[len(array.shape) :].nonzero()[0]
        if [*update.shape] != [1 if i == axis else size for i, size in enumerate(before.shape)]:
            continue
        new = onnx_ir.node("Concat", [before, update], attributes={"axis": int(axis)})
        onnx_ir.convenience.replace_nodes_and_values(model.graph, node, [node], [new], node.outputs, new.outputs)
    RemoveUnusedNodesPass()(model)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Leave out what exporters say of what they have no use for here."""
    loggers = [logging.getLogger(name) for name in (None, "torch.onnx", "onnx_ir", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
