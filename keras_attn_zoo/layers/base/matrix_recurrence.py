"""The recurrence of a matrix with every key and value, position by position and in chunks.

u_i = v_i,  or by the delta rule  u_i = β_i (v_i - a_i S_{i-1}ᵀ k_i)
S_i = a_i S_{i-1} + k_i u_iᵀ,   S_0 = 0
y_i = S_iᵀ q_i
"""

from keras import ops

from keras_attn_zoo.kernels import EXCLUDED, chunks, scan
from keras_attn_zoo.support.types import Tensor, TensorTree

# Arrays of all pairs of positions are no larger than this, squared.
CHUNK = 32


def next_matrix(matrix: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, rate: Tensor | None = None) -> Tensor:
    """Return S_i, float32 `(batch, heads, key_dim, value_dim)`, from S_{i-1} and the terms of one position.

    Args:
        matrix: S_{i-1}.
        key, value: k_i and v_i, `(batch, heads, 1, ...)`.
        log_decay: log a_i, at most 0, which broadcasts to `(batch, heads, 1, 1)`.
        rate: β_i, `(batch, heads, 1, 1)`, of the delta rule; None without it.
    """
    matrix = ops.exp(log_decay) * matrix
    key, value = ops.cast(key, "float32"), ops.cast(value, "float32")
    if rate is not None:
        value = rate * (value - ops.matmul(key, matrix))
    return matrix + ops.matmul(_transposed(key), value)


def outputs_in_chunks(
    query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, rate: Tensor | None = None, chunk: int = CHUNK
) -> Tensor:
    """Return y of all positions, float32 `(batch, heads, length, value_dim)`: products in a chunk, a loop over chunks.

    Args:
        query, key, value: q, k and v, `(batch, heads, length, ...)`.
        log_decay: log a, at most 0, which broadcasts to `(batch, heads, length, 1)` along the first two axes.
        rate: β, `(batch, heads, length, 1)`, of the delta rule; None without it.
        chunk: how many positions a chunk has.

    Source: Yang et al. 2024, Gated Delta Networks, section 3.3.
    """
    length = ops.shape(query)[2]
    chunk, count = chunks(length, chunk)

    def split(x):
        batch, heads, width = ops.shape(x)[0], x.shape[1], ops.shape(x)[3]
        after = ops.zeros((batch, heads, count * chunk - length, width), dtype="float32")
        x = ops.concatenate([ops.cast(x, "float32"), after], axis=2)
        return ops.transpose(ops.reshape(x, (batch, heads, count, chunk, width)), (2, 0, 1, 3, 4))

    query, key, value, log_decay = (split(x) for x in (query, key, value, log_decay))
    from_start = ops.cumsum(log_decay, axis=3)
    lower = ops.tril(ops.ones((chunk, chunk), dtype="bool"))
    decays = ops.exp(ops.where(lower, from_start - _transposed(from_start), EXCLUDED))
    whole = from_start[..., -1:, :]
    at: TensorTree = {
        "weights": ops.matmul(query, _transposed(key)) * decays,
        "query": query * ops.exp(from_start),
        "key": key * ops.exp(whole - from_start),
        "value": value,
        "decay": ops.exp(whole),
    }
    if rate is not None:
        rate = split(rate)
        # What the positions of a chunk write depends on what those before them have written: u + L u = β (v - ...).
        earlier = ops.where(ops.tril(lower, -1), rate * ops.matmul(key, _transposed(key)) * decays, 0.0)
        system = earlier + ops.eye(chunk)
        at["value"] = ops.solve_triangular(system, rate * value, lower=True)
        at["read"] = ops.solve_triangular(system, rate * key * ops.exp(from_start), lower=True)

    def step(matrix, this):
        written = this["value"]
        if "read" in this:
            written = written - ops.matmul(this["read"], matrix)
        found = ops.matmul(this["query"], matrix) + ops.matmul(this["weights"], written)
        return this["decay"] * matrix + ops.matmul(_transposed(this["key"]), written), found

    batch, heads = ops.shape(query)[1], query.shape[2]
    start = ops.zeros((batch, heads, key.shape[-1], ops.shape(value)[-1]), dtype="float32")
    _, found = scan(step, start, at)
    found = ops.transpose(found, (1, 2, 0, 3, 4))
    return ops.reshape(found, (batch, heads, count * chunk, ops.shape(value)[-1]))[:, :, :length]


def _transposed(x):
    return ops.swapaxes(x, -1, -2)
