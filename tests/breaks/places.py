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


PLACES = (
    Place(
        "padding keeps its weight",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        "return weights if mask is None else ops.where(mask, weights, 0.0)",
        "return weights",
    ),
    Place(
        "causal mask hides the position itself",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        "parts.append((rows >= columns",
        "parts.append((rows > columns",
    ),
    Place(
        "query mask is ignored",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        "if query_mask is not None:",
        "if query_mask is None and False:",
    ),
    Place(
        "NaN in padding reaches the context",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        'return x if mask is None else ops.where(ops.cast(mask, "bool")[..., None], x, 0.0)',
        "return x",
    ),
    Place(
        "self-attention loses the mask Keras carries",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        "        value_mask = query_mask\n",
        "        value_mask = None\n",
    ),
    Place(
        "key mask is ignored beside a value mask",
        "mask",
        "keras_attn_zoo/kernels/portable/masks.py",
        'key_mask if value_mask is None else ops.logical_and(ops.cast(value_mask, "bool"), key_mask)',
        "key_mask if value_mask is None else value_mask",
    ),
    Place(
        "subtracted weights are added",
        "sign",
        "keras_attn_zoo/layers/weight_subtraction_attention.py",
        "self.normalize(at - (self",
        "self.normalize(at + (self",
    ),
    Place(
        "subtraction forgets all but the last weights",
        "state",
        "keras_attn_zoo/layers/weight_subtraction_attention.py",
        '{"past": state["past"] + weights}',
        '{"past": weights}',
    ),
    Place(
        "accumulation forgets all but the last weights",
        "state",
        "keras_attn_zoo/layers/accumulated_weight_attention.py",
        "return past + weights",
        "return weights",
    ),
    Place(
        "previous weight without its scale",
        "scale",
        "keras_attn_zoo/layers/previous_weight_attention.py",
        '"float32") * self.key_dim**-0.5}',
        '"float32")}',
    ),
    Place(
        "feedback forgets all but the last weights",
        "state",
        "keras_attn_zoo/layers/bahdanau_attention.py",
        '{"accumulated": state["accumulated"] + weights}',
        '{"accumulated": weights}',
    ),
    Place(
        "softmax in half precision",
        "cast",
        "keras_attn_zoo/kernels/portable/masks.py",
        '    energies = ops.cast(energies, "float32")\n    if mask',
        "    if mask",
    ),
    Place(
        "average sums in half precision",
        "cast",
        "keras_attn_zoo/layers/average_attention.py",
        'terms = ops.cast(query, "float32")',
        "terms = y",
    ),
    Place(
        "average divides by one too few",
        "state",
        "keras_attn_zoo/layers/average_attention.py",
        'return count if isinstance(count, int) else ops.cast(count, "float32")',
        'return ops.cast(ops.maximum(count - 1, 1), "float32")',
    ),
    Place(
        "Gaussian centre on the other side",
        "sign",
        "keras_attn_zoo/layers/gaussian_attention.py",
        '"float32")[None] - centres)',
        '"float32")[None] + centres)',
    ),
    Place(
        "window divided by 2k",
        "scale",
        "keras_attn_zoo/layers/energy_accumulation_attention.py",
        "/ (2 * self.window + 1)",
        "/ (2 * self.window)",
    ),
    Place(
        "doubling does not square",
        "state",
        "keras_attn_zoo/layers/energy_accumulation_attention.py",
        "power, reach = ops.matmul(power, power), 2 * reach",
        "power, reach = power, 2 * reach",
    ),
    Place(
        "gradient of the pair's normaliser has the wrong sign",
        "gradient",
        "keras_attn_zoo/kernels/written_gradients.py",
        "return to_query, to_plain, -to_energies,",
        "return to_query, to_plain, to_energies,",
        "jax",
    ),
    Place(
        "pair survives a row with nothing to attend",
        "state",
        "keras_attn_zoo/kernels/portable/expanded_pairs.py",
        'left = ops.where(leaves_pair(at["real"], transposed), mapped(context, transposed) + bias, first)',
        "left = mapped(context, transposed) + bias",
        "jax",
    ),
    Place(
        "gradient of the normaliser doubled on the source side",
        "gradient",
        "keras_attn_zoo/kernels/written_gradients.py",
        "right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp)",
        "2 * right_exp * ops.matmul(ops.transpose(ratio, (0, 2, 1)), left_exp)",
        "jax",
    ),
    Place(
        "guarded gradient misses the source side",
        "gradient",
        "keras_attn_zoo/kernels/written_gradients.py",
        "return ops.sum(share, axis=2), ops.sum(share, axis=1)",
        "return ops.sum(share, axis=2), 0 * ops.sum(share, axis=1)",
        "jax",
    ),
    Place(
        "straight-through gradient is lost",
        "gradient",
        "keras_attn_zoo/layers/latent_alignment_head.py",
        "total = total + ops.sum(ops.where(left_out, others, 0.0), axis=-1)",
        "total = total + 0 * ops.sum(ops.where(left_out, others, 0.0), axis=-1)",
    ),
    Place(
        "top-k keeps one of equal weights too few",
        "mask",
        "keras_attn_zoo/layers/latent_alignment_head.py",
        "axis=-1) <= room)",
        "axis=-1) < room)",
    ),
    Place(
        "gradient of the loss forgets the smoothing of the gold token",
        "gradient",
        "keras_attn_zoo/kernels/written_gradients.py",
        "(1.0 - label_smoothing + share) * upstream",
        "(1.0 - label_smoothing) * upstream",
    ),
    Place(
        "loss counts padding",
        "mask",
        "keras_attn_zoo/training/token_loss.py",
        "ops.sum(loss * weights)",
        "ops.sum(loss)",
    ),
    Place(
        "gradients are not per token",
        "scale",
        "keras_attn_zoo/training/train_step.py",
        "None if g is None else g / ops.cast(tokens, g.dtype)",
        "None if g is None else g",
    ),
    Place(
        "regularisers do not enter the loss",
        "gradient",
        "keras_attn_zoo/training/train_step.py",
        '"loss": sums["loss"] + sums["tokens"] * extra}',
        '"loss": sums["loss"]}',
    ),
    Place(
        "finished hypotheses grow longer",
        "state",
        "keras_attn_zoo/decoding/beam_search.py",
        'lengths + ops.cast(ops.logical_not(finished), "float32")',
        "lengths + 1.0",
    ),
    Place(
        "state does not follow the beams",
        "state",
        "keras_attn_zoo/decoding/beam_search.py",
        'state = tree.map_structure(follow, new["state"])',
        'state = new["state"]',
    ),
    Place(
        "padding costs a finished hypothesis",
        "sign",
        "keras_attn_zoo/decoding/beam_search.py",
        "cost = ops.where(frozen[:, None], 0.0, cost)",
        "cost = ops.where(frozen[:, None], -1.0, cost)",
    ),
    Place(
        "the start token may be guessed",
        "mask",
        "keras_attn_zoo/bodies/rnn_decoder.py",
        "forced = ops.concatenate([ops.ones_like(forced[:, :1]), forced[:, 1:]], axis=1)",
        "forced = forced",
    ),
    Place(
        "RNN decoder's scores keep padded rows",
        "mask",
        "keras_attn_zoo/bodies/rnn_decoder.py",
        "if padding_mask is not None:",
        "if padding_mask is None and False:",
    ),
    Place(
        "reverse scan under TensorFlow runs forward",
        "gradient",
        "keras_attn_zoo/kernels/tensorflow_forms.py",
        "return length - 1 - index if reverse else index",
        "return index",
        "tensorflow",
    ),
    Place(
        "rows added to a small batch stay",
        "state",
        "keras_attn_zoo/kernels/jax_cpu.py",
        "barrier(columns))))[:rows]",
        "barrier(columns))))",
        "jax",
    ),
    Place(
        "cache under TensorFlow overwrites what comes after",
        "state",
        "keras_attn_zoo/kernels/tensorflow_forms.py",
        "ops.arange(array.shape[axis]) == index",
        "ops.arange(array.shape[axis]) <= index",
        "tensorflow",
    ),
    Place(
        "steps past the maximum length go on in silence",
        "state",
        "keras_attn_zoo/layers/base/self_attention_steps.py",
        'context = ops.where(memory["index"] < memory["positions"].shape[0], context, float("nan"))',
        "pass",
        "jax",
    ),
    Place(
        "dropout noise of steps is ignored",
        "state",
        "keras_attn_zoo/layers/base/attention_layer.py",
        'dropped = weights * ops.cast(noise, "float32")[:, :, None]',
        "dropped = weights",
    ),
    Place(
        "RAN loses its residual connection",
        "sign",
        "keras_attn_zoo/layers/recurrent_attention.py",
        "return refined + energies if self.residual else refined",
        "return refined",
    ),
    Place(
        "causal steps of self-attention miss the position itself",
        "mask",
        "keras_attn_zoo/layers/base/self_attention_steps.py",
        '(memory["positions"][None] <= position[:, None])',
        '(memory["positions"][None] < position[:, None])',
    ),
    Place(
        "dropout does not scale what it keeps",
        "scale",
        "keras_attn_zoo/kernels/jax_forms.py",
        "x / ops.cast(keep, x.dtype)",
        "x",
        "jax",
    ),
    Place(
        "entmax's gradient is sparsemax's",
        "gradient",
        "keras_attn_zoo/kernels/written_gradients.py",
        "upstream), ops.sqrt(weights))",
        "upstream), weights)",
        "jax",
    ),
    Place(
        "Gaussian of local attention is too wide",
        "scale",
        "keras_attn_zoo/layers/local_attention.py",
        "ops.exp(-2.0 * ops",
        "ops.exp(-1.0 * ops",
    ),
    Place(
        "coverage forgets what came before",
        "state",
        "keras_attn_zoo/layers/coverage_attention.py",
        "ops.tanh(covered + got",
        "ops.tanh(got",
    ),
    Place(
        "products of unsigned integers keep their shift",
        "scale",
        "keras_attn_zoo/kernels/jax_cpu.py",
        "(_mixed_product(moved, kernel) - shift)",
        "_mixed_product(moved, kernel)",
        "jax",
    ),
    Place(
        "a search reads kernels as they were prepared before training",
        "state",
        "keras_attn_zoo/runtime/prepared_weights.py",
        "not known or any(one() is not array for one, array in zip(self._arrays, arrays, strict=True))",
        "not known",
        "jax",
    ),
    Place(
        "a kernel is prepared without what LoRA adds",
        "state",
        "keras_attn_zoo/layers/base/dense.py",
        'layer.lora_enabled or layer.quantization_mode not in (None, "int8")',
        'layer.quantization_mode not in (None, "int8")',
        "jax",
    ),
    Place(
        "a step leaves out the chunk that begins with it",
        "state",
        "keras_attn_zoo/layers/base/chunked_cache.py",
        "ops.cond(place >= start, read, leave)",
        "ops.cond(place > start, read, leave)",
    ),
    Place(
        "the best tokens of the last block reach beyond the vocabulary",
        "mask",
        "keras_attn_zoo/kernels/jax_cpu.py",
        'ops.where(places < size, numbers, float("-inf"))',
        "numbers",
        "jax",
    ),
)
