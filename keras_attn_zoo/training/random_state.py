"""The random numbers of a backend that stand outside the model: PyTorch draws dropout from a stream of its own."""

import keras
import numpy as np


def get_random_state():
    """Return the backend's global random state, arrays by name; empty where the model's seeds are all there is."""
    if keras.config.backend() != "torch":
        return {}
    import torch

    states = {"torch": torch.get_rng_state().numpy()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy()
    return states


def set_random_state(states):
    """Set what `get_random_state` returned."""
    if not states:
        return
    import torch

    torch.set_rng_state(torch.from_numpy(np.array(states["torch"])))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(np.array(states["cuda"])))
