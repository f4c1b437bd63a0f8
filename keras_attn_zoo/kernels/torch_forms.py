"""Forms for PyTorch: dropout and Adam."""

import math
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_attn_zoo.kernels.forms import plain
from keras_attn_zoo.kernels.portable import noise
from keras_attn_zoo.kernels.portable.updates import AdamStep
from keras_attn_zoo.support.types import Tensor


def each(function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Compute all at once: an exported program would have as many steps of a loop as the example."""
    return function(inputs)


def fold(
    step: Callable[..., Tensor], start: Tensor, inputs: Sequence[tuple[Tensor, int]], constants: Sequence[Tensor] = ()
) -> Tensor:
    """Return what a loop of the exported program does, a single node with the step in it."""
    import torch

    slices = [x.movedim(axis, 0) for x, axis in inputs]
    [found] = torch.ops.higher_order.scan(lambda *tensors: [step(*tensors)], [start], slices, tuple(constants))
    return found


def chunks(length: Tensor, most: int) -> tuple[Tensor, int]:
    """Return a single chunk, for the same reason."""
    return length, 1


def recurrent_layer(
    cell: str,
    inputs: Tensor,
    states: Sequence[Tensor],
    mask: Tensor | None,
    weights: Sequence[Tensor],
    reverse: bool,
    loop: Callable[[], tuple[list[Tensor], Tensor]],
) -> tuple[list[Tensor], Tensor]:
    """Return what ONNX's GRU or LSTM does, a single node: an exported program would repeat a loop position by position.

    Padding is on the right, and its outputs are 0.
    """
    import torch

    (batch, length), units = inputs.shape[:2], states[0].shape[-1]
    kernel, recurrent_kernel, *biases = weights
    bias = torch.cat([one.reshape(-1) for one in biases])
    if cell == "lstm":
        kernel, recurrent_kernel, bias = (_in_order_of_onnx(x) for x in (kernel, recurrent_kernel, bias))
        # ONNX has a second bias.
        bias = torch.cat([bias, torch.zeros_like(bias)])
    lengths = None if mask is None else mask.sum(1).to(torch.int32)
    of_weights = (kernel.T[None], recurrent_kernel.T[None], bias[None])
    outputs, *states = torch.onnx.ops.symbolic_multi_out(
        cell.upper(),
        (inputs.transpose(0, 1), *of_weights, lengths, *(x[None] for x in states)),
        {
            "hidden_size": units,
            "direction": "reverse" if reverse else "forward",
            **({"linear_before_reset": 1} if cell == "gru" else {}),
        },
        dtypes=[inputs.dtype] * (1 + len(states)),
        shapes=[(length, 1, batch, units)] + [(1, batch, units)] * len(states),
    )
    return [x[0] for x in states], outputs[:, 0]


def _in_order_of_onnx(x):
    """The gates of an LSTM, which Keras has in another order."""
    write, keep, candidate, read = x.chunk(4, -1)
    import torch

    return torch.cat([write, read, keep, candidate], -1)


def write(array: Tensor, update: Tensor, index: int | Tensor, axis: int) -> Tensor:
    """Return `array` with `update` written at an index, by a choice: ONNX scatters by int64 alone."""
    places = ops.arange(array.shape[axis], dtype="int32") == index
    return ops.where(ops.reshape(places, [-1 if i == axis else 1 for i in range(array.ndim)]), update, array)


def usually(condition: Tensor, usual: Callable[[], Tensor], rare: Callable[[], Tensor]) -> Tensor:
    """Return the usual value: an exported program has no branches."""
    return usual()


def known_index(index: Tensor) -> Tensor:
    """Return the tensor: PyTorch would ask what value it has."""
    return index


def along_last(values: Tensor, places: Tensor) -> Tensor:
    """Gather: where shapes are broadcast, PyTorch would take the lengths of the example for those of all."""
    return values.gather(-1, places.long())


def dropout(x: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Drop by 16 random bits for each number, on a CPU, of a seed made of both words of the generator's.

    Keras adds up the two: as those of one layer count up from step to step, the masks of a layer would be those of
    another one's next step.
    """
    import torch

    # A compiler cannot take a generator.
    if rate > noise.HIGHEST_RATE or x.device.type != "cpu" or torch.compiler.is_compiling():
        return plain(noise.dropout)(x, rate, seed)
    keep, count = 1.0 - rate, math.prod(x.shape)
    first, second = (int(word) for word in seed.next())
    generator = torch.Generator().manual_seed((first * 0x9E3779B1 + second) % 2**32)
    # Signed, since PyTorch cannot compare others; four numbers to a word.
    words = torch.empty((count + 3) // 4, dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=generator)
    kept = words.view(torch.int16)[:count].view(x.shape) < noise.bound_of_kept(rate, 16) - 2**15
    return x * kept.to(x.dtype).mul_(1.0 / keep)


def adam(
    weights: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    means: Sequence[keras.Variable],
    squares: Sequence[keras.Variable],
    numbers: AdamStep,
) -> None:
    """Update all weights by one operation."""
    import torch
    from torch.optim.adam import adam as update

    factor, step = numbers.factor, int(numbers.step)
    gradients = [g.to(w.value.dtype) for w, g in zip(weights, gradients, strict=True)]
    if factor is not None and not _heeds_scale(gradients):
        gradients, factor = [g * factor.to(g.dtype) for g in gradients], None
    with torch.no_grad():
        update(
            [w.value for w in weights],
            gradients,
            [m.value for m in means],
            [v.value for v in squares],
            [],
            # PyTorch counts the step itself.
            [torch.tensor(step - 1.0, device=w.value.device) for w in weights],
            fused=True,
            amsgrad=False,
            beta1=numbers.beta_1,
            beta2=numbers.beta_2,
            lr=float(numbers.learning_rate),
            weight_decay=0.0,
            # PyTorch divides √v by √(1 - β₂ᵗ) before it adds ε.
            eps=numbers.epsilon / (1 - numbers.beta_2**step) ** 0.5,
            maximize=False,
            # PyTorch divides by it.
            grad_scale=None if factor is None else 1.0 / factor,
        )


def _heeds_scale(gradients):
    """Whether PyTorch's update heeds `grad_scale`: that of Apple's GPUs takes it, and does nothing with it."""
    return all(gradient.device.type in ("cpu", "cuda") for gradient in gradients)
