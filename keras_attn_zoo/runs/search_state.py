"""How large the state of a search is: counted in a body that is built for it."""

import functools
import json
import math

from keras import ops, tree

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs.outline import body_arguments
from keras_attn_zoo.runs.settings import SMALLEST_VOCABULARY
from keras_attn_zoo.runs.system import System


def state_numbers(system: System, length: int) -> int:
    """Return how many numbers a search carries from position to position, for one hypothesis.

    Keys and values of the source, which all hypotheses of a sentence share, are none of them.

    Args:
        system: the system.
        length: tokens of the source, and of the longest translation.

    Example:
        >>> small = System("a", {"width": 8, "num_heads": 2, "decoder_layers": 1}, body="transformer")
        >>> state_numbers(small, 5) - state_numbers(small, 4)  # A key and a value.
        16
    """
    # Weights for each position must suffice; what a search has room for is its own.
    arguments = json.dumps(body_arguments(system, max(length, system.data.max_tokens)), sort_keys=True)
    return _state_numbers(system.body, arguments, length)


@functools.lru_cache(maxsize=256)
def _state_numbers(name, arguments, length):
    body = BODIES[name].body_class(SMALLEST_VOCABULARY, SMALLEST_VOCABULARY, **json.loads(arguments))
    ids, mask = ops.ones((1, length), dtype="int32"), ops.ones((1, length), dtype="bool")
    _, _, state = body.start_search(ids, mask, length)
    return sum(math.prod(one.shape) for one in tree.flatten(state))
