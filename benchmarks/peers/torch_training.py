"""What all contenders under PyTorch share: precision and device, two of the three arguments, and a step of training."""

import sys

from protocol import optional, random_batch

torch = optional("torch")

PRECISION, DEVICE, _ = sys.argv[1:]
# As a compiler does by itself.
torch.set_flush_denormal(True)


def batch(task):
    """Source ids, target ids and labels, on the device."""
    return [torch.from_numpy(ids).to(DEVICE) for ids in random_batch(task)]


def training(model, loss_of):
    """A step of fused Adam as a function, and the number of weights.

    Args:
        model: a `torch.nn.Module`.
        loss_of: function without arguments that returns the loss; it runs under autocast in bfloat16.
    """
    model.to(DEVICE).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def run():
        with torch.autocast(DEVICE, torch.bfloat16, enabled=PRECISION == "bfloat16"):
            loss = loss_of()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        # A GPU gives it when the step is done.
        return loss.item()

    return run, sum(x.numel() for x in model.parameters())


def cross_entropy(logits, labels):
    """The mean loss of a token, in float32."""
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
