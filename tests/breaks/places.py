"""The places that `python -m tests.breaks` breaks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Place:
    """One place, and what is wrong with it afterwards.

    Attributes:
        what: what is broken, in words.
        kind: "mask", "state", "sign", "scale", "cast" or "gradient".
        file: path from the root of the project.
        old, new: text that stands there once, and what takes its place.
        backend: the one whose tests look at it.
    """

    what: str
    kind: str
    file: str
    old: str
    new: str
    backend: str = "torch"

    def broken(self, text):
        """The text of the file with the break in it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times: mend tests/breaks/places.py")
        return text.replace(self.old, self.new)


# By file of the package: what is broken, its kind, what stands there and what takes its place; and the backend.
BROKEN = {
    "kernels/portable/masks.py": [
        (
            "padding keeps its weight",
            "mask",
            "return weights if mask is None else ops.where(mask, weights, 0.0)",
            "return weights",
        ),
        (
            "causal mask hides the position itself",
            "mask",
            "parts.append((rows >= columns",
            "parts.append((rows > columns",
        ),
        ("query mask is ignored", "mask", "parts = []\n    if query_mask is not None:", "parts = []\n    if False:"),
        (
            "NaN in padding reaches the context",
            "mask",
            'return x if mask is None else ops.where(ops.cast(mask, "bool")[..., None], x, 0.0)',
            "return x",
        ),
        (
            "self-attention loses the mask Keras carries",
            "mask",
            "        value_mask = query_mask\n",
            "        value_mask = None\n",
        ),
        (
            "key mask is ignored beside a value mask",
            "mask",
            'key_mask if value_mask is None else ops.logical_and(ops.cast(value_mask, "bool"), key_mask)',
            "key_mask if value_mask is None else value_mask",
        ),
        (
            "softmax in half precision",
            "cast",
            '    energies = ops.cast(energies, "float32")\n    if mask',
            "    if mask",
        ),
    ],
    "layers/weight_subtraction_attention.py": [
        ("subtracted weights are added", "sign", "self.normalize(at - (self", "self.normalize(at + (self"),
        (
            "subtraction forgets all but the last weights",
            "state",
            '{"past": state["past"] + weights}',
            '{"past": weights}',
        ),
    ],
    "layers/accumulated_weight_attention.py": [
        ("accumulation forgets all but the last weights", "state", "return past + weights", "return weights"),
    ],
    "layers/previous_weight_attention.py": [
        ("previous weight without its scale", "scale", '"float32") * self.key_dim**-0.5}', '"float32")}'),
    ],
    "layers/bahdanau_attention.py": [
        (
            "feedback forgets all but the last weights",
            "state",
            '{"accumulated": state["accumulated"] + weights}',
            '{"accumulated": weights}',
        ),
    ],
    "layers/average_attention.py": [
        # PyTorch sums up in float32 anyway.
        (
            "average sums in half precision",
            "cast",
            'mean = ops.cumsum(ops.cast(memory["value"], "float32"), axis=1)',
            'mean = ops.cumsum(ops.cast(memory["value"], self.compute_dtype), axis=1)',
            "jax",
        ),
        (
            "average divides by one too few",
            "state",
            'return count if isinstance(count, int) else ops.cast(count, "float32")',
            'return ops.cast(ops.maximum(count - 1, 1), "float32")',
        ),
    ],
    "layers/gaussian_attention.py": [
        ("Gaussian centre on the other side", "sign", '"float32")[None] - centres)', '"float32")[None] + centres)'),
    ],
    "layers/energy_accumulation_attention.py": [
        ("window divided by 2k", "scale", "/ (2 * self.window + 1)", "/ (2 * self.window)"),
        (
            "doubling does not square",
            "state",
            "power, reach = ops.matmul(power, power), 2 * reach",
            "power, reach = power, 2 * reach",
        ),
    ],
    "kernels/written_gradients.py": [
        (
            "gradient of the pair's normaliser has the wrong sign",
            "gradient",
            "return to_query, to_plain, -to_energies,",
            "return to_query, to_plain, to_energies,",
            "jax",
        ),
        (
            "gradient of the normaliser doubled on the source side",
            "gradient",
            "right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp)",
            "2 * right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp)",
            "jax",
        ),
        (
            "guarded gradient misses the source side",
            "gradient",
            "return ops.sum(share, axis=2), ops.sum(share, axis=1)",
            "return ops.sum(share, axis=2), 0 * ops.sum(share, axis=1)",
            "jax",
        ),
        (
            "gradient of the loss forgets the smoothing of the gold token",
            "gradient",
            "(1.0 - label_smoothing + share) * upstream",
            "(1.0 - label_smoothing) * upstream",
        ),
        ("entmax's gradient is sparsemax's", "gradient", "upstream), ops.sqrt(weights))", "upstream), weights)", "jax"),
    ],
    "kernels/portable/expanded_pairs.py": [
        (
            "pair survives a row with nothing to attend",
            "state",
            'left = ops.where(leaves_pair(at["real"], transposed), mapped(context, transposed) + bias, first)',
            "left = mapped(context, transposed) + bias",
            "jax",
        ),
    ],
    "layers/base/marginalization.py": [
        (
            "straight-through gradient is lost",
            "gradient",
            "total = total + ops.sum(left_out * ops.stop_gradient(likelihood), axis=-1)",
            "total = total + 0 * ops.sum(left_out * ops.stop_gradient(likelihood), axis=-1)",
        ),
        ("top-k keeps one of equal weights too few", "mask", "axis=-1) <= room)", "axis=-1) < room)"),
    ],
    "training/token_loss.py": [
        ("loss counts padding", "mask", "ops.sum(loss * weights)", "ops.sum(loss)"),
    ],
    "training/train_step.py": [
        (
            "gradients are not per token",
            "scale",
            "None if g is None else g / ops.cast(tokens, g.dtype)",
            "None if g is None else g",
        ),
        (
            "regularisers do not enter the loss",
            "gradient",
            '"loss": sums["loss"] + sums["tokens"] * extra}',
            '"loss": sums["loss"]}',
        ),
    ],
    "decoding/beam_search.py": [
        (
            "finished hypotheses grow longer",
            "state",
            'lengths + ops.cast(ops.logical_not(finished), "float32")',
            "lengths + 1.0",
        ),
        (
            "state does not follow the beams",
            "state",
            'state = tree.map_structure(follow, new["state"])',
            'state = new["state"]',
        ),
        (
            "padding costs a finished hypothesis",
            "sign",
            "cost = ops.where(frozen[:, None], 0.0, cost)",
            "cost = ops.where(frozen[:, None], -1.0, cost)",
        ),
    ],
    "bodies/rnn_decoder.py": [
        (
            "the start token may be guessed",
            "mask",
            "forced = ops.concatenate([ops.ones_like(forced[:, :1]), forced[:, 1:]], axis=1)",
            "forced = forced",
        ),
        (
            "RNN decoder's scores keep padded rows",
            "mask",
            "if padding_mask is not None:",
            "if padding_mask is None and False:",
        ),
    ],
    "kernels/portable/updates.py": [
        (
            "Adam corrects the second moment by the first one's rate",
            "scale",
            "1 - ops.power(ops.cast(numbers.beta_2, w.dtype), step)",
            "1 - ops.power(ops.cast(numbers.beta_1, w.dtype), step)",
            "tensorflow",
        ),
    ],
    "kernels/tensorflow_forms.py": [
        (
            "the gradient of an embedding is sparse",
            "gradient",
            "plain(embeddings.rows)(table * 1.0, ids)",
            "plain(embeddings.rows)(table, ids)",
            "tensorflow",
        ),
        (
            "reverse scan under TensorFlow runs forward",
            "gradient",
            "return length - 1 - index if reverse else index",
            "return index",
            "tensorflow",
        ),
        (
            "cache under TensorFlow overwrites what comes after",
            "state",
            "ops.arange(array.shape[axis]) == index",
            "ops.arange(array.shape[axis]) <= index",
            "tensorflow",
        ),
    ],
    "kernels/jax_cpu.py": [
        (
            "products of bfloat16 are summed in bfloat16",
            "cast",
            'dot_general(barrier(x), kernel, axes, preferred_element_type="float32")',
            "dot_general(barrier(x), kernel, axes)",
            "jax",
        ),
        ("the bias of a product has no gradient", "gradient", "upstream)[0],", "upstream)[0] * 0,", "jax"),
        (
            "the gradient of a wide kernel has the wrong sign",
            "gradient",
            "return ops.transpose(product_in_float32(transposed_in_memory(delta), x))",
            "return -ops.transpose(product_in_float32(transposed_in_memory(delta), x))",
            "jax",
        ),
        (
            "a weight that a loop uses twice has the gradient of its last use",
            "gradient",
            "of_weights[use.place] += ops.cast",
            "of_weights[use.place] = ops.cast",
            "jax",
        ),
        (
            "a reverse loop in training runs forward",
            "state",
            "(beside, inputs), reverse=reverse)",
            "(beside, inputs))",
            "jax",
        ),
        (
            "products of a loop pass no gradient to their input",
            "gradient",
            "return ops.cast(of_x, kind), ops.zeros_like(kernel), delta",
            "return 0 * ops.cast(of_x, kind), ops.zeros_like(kernel), delta",
            "jax",
        ),
        (
            "a transposed kernel is taken for the kernel",
            "state",
            "kernel, transposed = known\n",
            "kernel, transposed = ops.reshape(known.matrix, (width, -1)), False\n",
            "jax",
        ),
        (
            "a kernel of int8 in floating point loses its bias",
            "scale",
            "return linear(x, weight, bias, compute_dtype=compute_dtype)",
            "return linear(x, weight, None, compute_dtype=compute_dtype)",
            "jax",
        ),
        (
            "the last chunk of a cache reaches beyond its end",
            "state",
            "[min(size, length - start) for",
            "[size for",
            "jax",
        ),
        (
            "of equal tokens, the first is not the best",
            "state",
            "places = ops.sort(blocks, axis=-1)[..., None]",
            "places = ops.flip(ops.sort(blocks, axis=-1), axis=-1)[..., None]",
            "jax",
        ),
        ("rows added to a small batch stay", "state", "barrier(columns))))[:rows]", "barrier(columns))))", "jax"),
        (
            "products of unsigned integers keep their shift",
            "scale",
            "(_mixed_product(moved, kernel) - shift)",
            "_mixed_product(moved, kernel)",
            "jax",
        ),
        (
            "the best tokens of the last block reach beyond the vocabulary",
            "mask",
            'ops.where(places < size, numbers, float("-inf"))',
            "numbers",
            "jax",
        ),
    ],
    "layers/base/self_attention_steps.py": [
        (
            "steps past the maximum length go on in silence",
            "state",
            'context = ops.where(memory["index"] < memory["positions"].shape[0], context, float("nan"))',
            "pass",
            "jax",
        ),
        (
            "causal steps of self-attention miss the position itself",
            "mask",
            '(memory["positions"][None] <= position[:, None])',
            '(memory["positions"][None] < position[:, None])',
        ),
    ],
    "layers/base/attention_layer.py": [
        (
            "dropout noise of steps is ignored",
            "state",
            'dropped = weights * ops.cast(noise, "float32")[:, :, None]',
            "dropped = weights",
        ),
    ],
    "layers/recurrent_attention.py": [
        (
            "RAN loses its residual connection",
            "sign",
            "refined = refined + energies if self.residual else refined",
            "refined = refined + 0",
        ),
    ],
    "kernels/torch_forms.py": [
        (
            "Adam adds ε before the correction",
            "scale",
            "eps=numbers.epsilon / (1 - numbers.beta_2**step) ** 0.5,",
            "eps=numbers.epsilon,",
        ),
        ("Adam multiplies by what it should divide by", "scale", "1.0 / factor,", "factor,"),
        (
            "masks of a layer are those of another one's next step",
            "state",
            "first * 0x9E3779B1 + second",
            "first + second",
        ),
    ],
    "kernels/jax_forms.py": [
        (
            "the gradient of the loss forgets what multiplies it",
            "gradient",
            "- upstream * target",
            "- target",
            "jax",
        ),
        (
            "dropout leaves out the same in every step",
            "state",
            "second = _mix(first ^ seed[1])",
            "second = _mix(first)",
            "jax",
        ),
        ("dropout does not scale what it keeps", "scale", "x / ops.cast(keep, x.dtype)", "x", "jax"),
    ],
    "layers/local_attention.py": [
        ("Gaussian of local attention is too wide", "scale", "ops.exp(-2.0 * ops", "ops.exp(-1.0 * ops"),
    ],
    "layers/coverage_attention.py": [
        ("coverage forgets what came before", "state", "ops.tanh(covered + got", "ops.tanh(got"),
    ],
    "runtime/prepared_weights.py": [
        (
            "a search reads kernels as they were prepared before training",
            "state",
            "not known or any(one() is not array for one, array in zip(self._arrays, arrays, strict=True))",
            "not known",
            "jax",
        ),
    ],
    "layers/base/dense.py": [
        (
            "a kernel is prepared without what LoRA adds",
            "state",
            'layer.lora_enabled or layer.quantization_mode not in (None, "int8")',
            'layer.quantization_mode not in (None, "int8")',
            "jax",
        ),
    ],
    "layers/base/chunked_cache.py": [
        (
            "a step leaves out the chunk that begins with it",
            "state",
            "ops.cond(place >= start, read, leave)",
            "ops.cond(place > start, read, leave)",
        ),
    ],
}
PLACES = [
    Place(what, kind, f"keras_attn_zoo/{file}", *rest)
    for file, places in BROKEN.items()
    for what, kind, *rest in places
]
