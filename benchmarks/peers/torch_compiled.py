"""`nn.Transformer` as a contender, compiled by `torch.compile`."""

from protocol import serve
from torch_training import torch
from torch_translators import prepare


def _prepare(task):
    if task["system"] != "transformer":
        raise NotImplementedError("compiling a loop over positions takes minutes")
    return prepare(task, compiled=True)


if __name__ == "__main__":
    serve(_prepare, f"torch {torch.__version__}, its own layers, compiled")
