"""State that a backend keeps outside the model and that a run's results depend on.

PyTorch draws dropout from its global random stream; TensorFlow's threads sum in
any order unless told to be deterministic.
"""

import keras
import numpy as np

from keras_attn_zoo.devices import current
from keras_attn_zoo.support.types import Logs


def make_deterministic() -> None:
    """Make the same seed produce the same numbers on a CPU, to the last bit."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        if not tf.config.list_physical_devices("GPU"):
            tf.config.experimental.enable_op_determinism()


def get_random_state() -> dict[str, np.ndarray]:
    """Return the backend's global random state, arrays by name; empty if the model's seeds are the only state."""
    if keras.config.backend() != "torch":
        return {}
    import torch

    states = {"torch": torch.get_rng_state().numpy()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy()
    return states


def set_random_state(states: dict[str, np.ndarray] | None) -> None:
    """Set what `get_random_state` returned."""
    if not states:
        return
    import torch

    torch.set_rng_state(torch.from_numpy(np.array(states["torch"])))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(np.array(states["cuda"])))


class SeparateNoise(keras.callbacks.Callback):
    """Let devices that share a batch draw different random numbers for their rows, as functions of seed and round.

    Put it after `ResumableState`. The leading process draws what it would draw alone, and its random state is saved,
    so a run may be resumed on another number of devices. JAX draws for the whole batch and needs nothing of this.

    Args:
        seed: the seed of the run.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Separate what the model keeps."""
        if (devices := current()) is not None:
            devices.separate_noise(self.model)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Note the round."""
        self._round: int | None = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Separate what the backend keeps outside the model, before the first step of a round."""
        devices = current()
        if self._round is not None and devices is not None and not devices.leads and get_random_state():
            import torch

            key = np.random.SeedSequence([self.seed, self._round, devices.process])
            torch.manual_seed(int(key.generate_state(1)[0]))
        self._round = None
