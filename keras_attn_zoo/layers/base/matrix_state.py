"""The base class of self-attention whose steps keep a matrix for each head in place of all keys and values."""

from typing import Any

from keras import ops

from keras_attn_zoo.kernels import attending_rows
from keras_attn_zoo.layers.base.headed_attention import HeadedAttention
from keras_attn_zoo.layers.base.matrix_recurrence import next_matrix, outputs_in_chunks
from keras_attn_zoo.layers.base.self_attention_steps import SelfAttentionSteps
from keras_attn_zoo.support.types import Tensor, TensorTree


class MatrixStateAttention(SelfAttentionSteps, HeadedAttention):
    """Base class of self-attention that is a recurrence of one matrix for each head.

        S_i = a_i S_{i-1} + k_i v_iᵀ,   y_i = S_iᵀ q_i = Σ_{j≤i} (q_iᵀ k_j ∏_{j<l≤i} a_l) v_j

    A subclass says what its queries, keys and values are (`project`, `written`), and what becomes of y (`finish`). A
    call whose scores are not asked for runs in chunks and holds no array of all pairs of positions, unless it has an
    `attention_mask`.

    Scores: the factors of v_j without their signs, as shares of their sum. Steps whose state is to have a constant size
    know none: they return scores `(batch, heads, 0)`. `prepare(max_length=..., return_attention_scores=True)` asks for
    them: the state then has a column for each position, as if its value were a vector of its own.

    Dropout: none, as there are no weights to drop.

    State: `{"matrix": (batch, heads, key_dim, value_dim), "position": (batch,)}`, in float32; with scores
    `"columns": (batch, heads, key_dim, max_length)` besides.
    """

    projections = ("query", "key", "value")
    attends_to = "itself"
    plain_heads = "a matrix for each head replaces its keys"

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        if self.dropout:
            raise ValueError(
                f"{type(self).__name__}: `dropout` drops weights, of which its state has none: leave it out. "
                f"Received: dropout={self.dropout}."
            )

    # What a mechanism defines.

    @property
    def state_columns(self) -> int:
        """How many columns the matrix has: as many as a value that is written."""
        return self.value_dim

    def project_part(self, part: str, x: Tensor, positions: Tensor) -> Tensor:
        """Return a part of x `(batch, length, width)` at these positions, float32 `(batch, heads, length, ...)`."""
        return ops.cast(getattr(self, f"{part}_dense")(x), "float32")

    def written(self, x: Tensor, positions: Tensor, real: Tensor | None = None) -> dict[str, Tensor]:
        """Return what positions write: "key", "value", "log_decay" and, by the delta rule, "rate".

        `real` is a mask `(batch, length)` of positions that are no padding; None if all are.
        """
        return {
            "key": self.project_part("key", x, positions),
            "value": self.project_part("value", x, positions),
            "log_decay": self.log_decay(x, real),
        }

    def log_decay(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return log a, float32, broadcasting along batch and heads to `(batch, heads, length, 1)`; 0 by default."""
        return ops.zeros((1, 1, ops.shape(x)[1], 1), dtype="float32")

    def outputs(self, query: Tensor, memory: TensorTree, causal: bool) -> Tensor:
        """Return y of all positions, float32 `(batch, heads, length, ...)`."""
        return outputs_in_chunks(query, **{part: x for part, x in memory.items() if part != "mask"})

    def finish(self, outputs: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return contexts from y and the inputs of the same positions; 0 in a row with nothing to attend to."""
        return self.merge(ops.cast(outputs, self.operand_dtype), mask)

    # The call.

    def prepare(
        self,
        value: Tensor | None = None,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        max_length: int | None = None,
        return_attention_scores: bool = False,
    ) -> TensorTree:
        """Project keys and values; for steps, say whether they return scores."""
        memory = super().prepare(value, key, value_mask, max_length)
        if value is None:
            return {**memory, "columns": ops.eye(max_length)} if return_attention_scores else memory
        x, real = memory["value"], memory["mask"]
        found = self.written(x, _positions_of(x), real)
        found["key"] = ops.where(real[:, None, :, None], found["key"], 0.0)
        return {"mask": real, **found}

    def attend_in_chunks(
        self, query: Tensor, memory: TensorTree, query_mask: Tensor | None, causal: bool, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of a call without scores; see `AttentionLayer.attend_in_chunks`."""
        x = ops.cast(query, self.compute_dtype)
        outputs = self.outputs(self.project_part("query", x, _positions_of(x)), memory, causal)
        return self.finish(outputs, x, attending_rows(query_mask, memory["mask"], causal))

    def attend(
        self, query: Tensor, memory: TensorTree, mask: Tensor | None, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend by the factors of all values, with the query in the memory, as it is in steps."""
        query = ops.cast(query, self.compute_dtype)
        context, factors = super().attend(query, {**memory, "query": query}, mask, training)
        return context, shares(factors)

    def energies(self, query: Tensor, memory: TensorTree) -> Tensor:
        """Return the factors of the values, unmasked: products of queries and keys, times what decays between them."""
        projected = self.project_part("query", query, _positions_of(query))
        products = ops.matmul(projected, ops.transpose(memory["key"], (0, 1, 3, 2)))
        from_start = ops.cumsum(memory["log_decay"], axis=2)
        apart = ops.abs(from_start - ops.transpose(from_start, (0, 1, 3, 2)))
        return products * ops.exp(-apart)

    def normalize(self, energies: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the factors, 0 where the mask is false."""
        return energies if mask is None else ops.where(mask, energies, 0.0)

    def weigh(
        self, weights: Tensor, memory: TensorTree, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the contexts of all heads, joined: of the weights of a call, or of what a step has read."""
        outputs = memory["outputs"] if "index" in memory else ops.matmul(weights, memory["value"])
        return self.finish(outputs, memory["query"], mask)

    # The step.

    def initial_state(self, memory: TensorTree, batch_size: int | None = None) -> TensorTree:
        """Return the state before the first position, with a column for each if scores are asked for."""
        state = super().initial_state(memory, batch_size)
        if "columns" in memory:
            state["columns"] = ops.zeros((batch_size, self.num_heads, self.key_dim, len(memory["columns"])))
        return state

    def nothing_seen(self, batch_size: int, max_length: int) -> TensorTree:
        """Return an empty matrix."""
        return {"matrix": ops.zeros((batch_size, self.num_heads, self.key_dim, self.state_columns), dtype="float32")}

    def see(self, query: Tensor, seen: TensorTree, index: int | Tensor) -> TensorTree:
        """Write one position to the matrix."""
        written = self.written(query, _one(index))
        now = {"matrix": next_matrix(seen["matrix"], **written)}
        if "columns" in seen:
            written["value"] = ops.one_hot(index, seen["columns"].shape[-1])[None, None, None]
            now["columns"] = next_matrix(seen["columns"], **written)
        return now

    def mask_of_step(self, memory: TensorTree, position: Tensor) -> Tensor | None:
        """Return None: positions ahead have written nothing."""
        return None

    def observe(
        self, query: Tensor, memory: TensorTree, state: TensorTree
    ) -> tuple[TensorTree, Tensor | None, TensorTree]:
        """Write a position and read with its query; see `AttentionLayer.observe`."""
        memory, mask, state = super().observe(query, memory, state)
        projected = self.project_part("query", query, _one(memory["index"]))
        memory["outputs"] = ops.matmul(projected, memory["matrix"])
        memory["factors"] = ops.matmul(projected, memory.get("columns", memory["matrix"][..., :0]))
        return memory, mask, state

    def ahead(self, query: Tensor, memory: TensorTree, positions: Tensor | None = None) -> TensorTree:
        """Return the factors of the values; in a step those that were asked for."""
        return memory["factors"] if "index" in memory else super().ahead(query, memory, positions)

    def attend_once(
        self,
        query: Tensor,
        memory: TensorTree,
        mask: Tensor | None,
        state: TensorTree,
        noise: TensorTree | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Run a step on what `observe` returned; see `AttentionLayer.attend_once`."""
        context, factors, state = super().attend_once(query, memory, mask, state, noise, positions)
        return context, shares(factors), state


def divided(x: Tensor, total: Tensor) -> Tensor:
    """Return x divided by a total of at least 0; x itself where that is 0."""
    return x / ops.where(total > 0, total, 1.0)


def shares(factors: Tensor) -> Tensor:
    """Return scores from factors of values: without their signs, divided by their sum."""
    factors = ops.abs(factors)
    return divided(factors, ops.sum(factors, axis=-1, keepdims=True))


def _positions_of(x):
    return ops.arange(ops.shape(x)[1], dtype="int32")


def _one(index):
    return ops.reshape(ops.cast(index, "int32"), (1,))
