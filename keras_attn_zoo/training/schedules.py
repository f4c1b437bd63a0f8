"""Schedules over the steps of training: for the learning rate and for teacher forcing."""

import math

import keras
from keras import ops

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.types import Config, Tensor


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then decay with the inverse square root of the step.

    Use it for a Transformer, or when Adam needs a gentle start.

        lr(t) = peak · min(t / warmup, √(warmup / t)),  t = step + 1

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: length of the warm-up.

    Example:
        >>> InverseSquareRoot(1e-3, 4000)(3999)  # 1e-3
    """

    def __init__(self, peak: float, warmup_steps: int) -> None:
        self.peak, self.warmup_steps = float(peak), int(warmup_steps)
        if self.peak <= 0 or self.warmup_steps < 1:
            raise UserError(f"peak={peak} and warmup_steps={warmup_steps} must be positive.")

    def __call__(self, step: int | Tensor) -> Tensor:
        """Return the learning rate of a step, counted from 0."""
        t = ops.cast(step, "float32") + 1.0
        return self.peak * ops.minimum(t / self.warmup_steps, ops.sqrt(self.warmup_steps / t))

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class CosineSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then half a cosine down to 0 at the last step.

    Use it if the number of steps is known beforehand and small.

        lr(t) = peak · (1 + (warmup - 1) · t / warmup) / warmup                t < warmup
        lr(t) = peak · (1 + cos(π · (t - warmup) / (steps - warmup))) / 2      t >= warmup

    These are the rates of Keras' `CosineDecay`, which compiles anew at every call outside of a compiled step.

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: length of the warm-up.
        steps: length of the training, warm-up included; the rate is 0 from then on.

    Example:
        >>> CosineSchedule(1e-3, 100, 1100)(600)  # 5e-4
    """

    def __init__(self, peak: float, warmup_steps: int, steps: int) -> None:
        self.peak, self.warmup_steps, self.steps = float(peak), int(warmup_steps), int(steps)
        if self.peak <= 0 or not 1 <= self.warmup_steps < self.steps:
            raise UserError(
                f"peak={peak} must be positive, and warmup_steps={warmup_steps} from 1 to steps={steps} - 1."
            )

    def __call__(self, step: int | Tensor) -> Tensor:
        """Return the learning rate of a step, counted from 0."""
        t = ops.cast(step, "float32")
        rising = (1.0 + (self.warmup_steps - 1) * t / self.warmup_steps) / self.warmup_steps
        done = ops.clip((t - self.warmup_steps) / (self.steps - self.warmup_steps), 0.0, 1.0)
        return self.peak * ops.minimum(rising, (1.0 + ops.cos(math.pi * done)) / 2)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "steps": self.steps}


@keras.saving.register_keras_serializable(package="keras_attn_zoo")
class HalvingSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Constant up to a step, then halved repeatedly.

        lr(t) = initial                                    t < start
        lr(t) = initial · rate^(1 + ⌊(t - start) / every⌋)   t >= start

    Args:
        initial: initial learning rate.
        start: first step with a lower rate.
        every: steps from one cut to the next.
        rate: factor of each cut.

    Example:
        >>> HalvingSchedule(1e-3, start=16000, every=4000)(20000)  # 2.5e-4

    Source: Dang, section 3.3 (start 16,000, every 4,000, rate 0.5).
    """

    def __init__(self, initial: float, start: int, every: int, rate: float = 0.5) -> None:
        self.initial, self.start, self.every, self.rate = float(initial), int(start), int(every), float(rate)
        if self.initial <= 0 or self.every < 1 or not 0 < self.rate < 1:
            raise UserError(f"initial={initial} and every={every} must be positive, rate={rate} between 0 and 1.")

    def __call__(self, step: int | Tensor) -> Tensor:
        """Return the learning rate of a step, counted from 0."""
        step = ops.cast(step, "float32")
        cuts = ops.maximum(0.0, 1.0 + ops.floor((step - self.start) / self.every))
        return self.initial * ops.power(self.rate, cuts)

    def get_config(self) -> Config:
        """Return the arguments of the constructor."""
        return {"initial": self.initial, "start": self.start, "every": self.every, "rate": self.rate}


class TeacherForcing:
    """Probability of feeding the gold token, as a function of the step.

    Use it as `teacher_forcing` of `TranslationBatches`, which tosses a coin for
    every target position of every sentence.

        p(t) = start + (end - start) · min(t / steps, 1)

    Args:
        start: probability at step 0.
        end: probability from step `steps` on; by default `start`, so that it is constant.
        steps: length of the linear decay.

    Raises:
        UserError: a probability outside [0, 1], or a decay without `steps`.

    Example:
        >>> TeacherForcing(1.0, 0.5, steps=1000)(500)
        0.75

    Source: Hiemsch, section 4 (a constant ratio); the decay is the linear one of
    Bengio et al. 2015, which Hiemsch mentions.

    Differences from the paper: each position of a sentence has its own coin;
    the paper leaves open whether a batch shares them.
    """

    def __init__(self, start: float, end: float | None = None, steps: int | None = None) -> None:
        end = start if end is None else end
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise UserError(f"teacher forcing from {start} to {end}: give probabilities between 0 and 1.")
        if start != end and (steps is None or steps < 1):
            raise UserError(
                f"teacher forcing decays from {start} to {end}, but over how many steps is not set: set steps."
            )
        self.start, self.end, self.steps = float(start), float(end), steps

    def __call__(self, step: int) -> float:
        """Return the probability at a step."""
        if self.start == self.end:
            return self.start
        return self.start + (self.end - self.start) * min(step / (self.steps or 1), 1.0)
