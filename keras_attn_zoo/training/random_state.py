"""State that a backend keeps outside the model and that a run's results depend on.

PyTorch draws dropout from its global random stream; TensorFlow's threads sum in
any order unless told to be deterministic.
"""

import keras
import numpy as np


def make_deterministic() -> None:
    """Make the same seed produce the same numbers on a CPU, to the last bit."""
    if keras.config.backend() != "tensorflow":
        return
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
