"""Copy and reverse: what a Transformer with any mechanism learns in a minute, and what some cannot learn.

KERAS_BACKEND=jax python -m tests.toy_tasks
KERAS_BACKEND=torch python -m tests.toy_tasks --task reverse --names multi_head previous_weight
"""

import argparse
import inspect
import sys
import time

import keras
import numpy as np

from keras_attn_zoo.bodies import TransformerBackbone
from keras_attn_zoo.layers import ATTENTIONS, get_attention
from keras_attn_zoo.training.schedules import InverseSquareRoot
from keras_attn_zoo.translators import Translator

WORDS, LENGTH = 12, 10
START, END, FIRST = 2, 3, 4
SIZES = {"width": 32, "num_heads": 2, "ffn_dim": 64, "encoder_layers": 1, "decoder_layers": 1, "max_length": LENGTH + 2}
# Share of right tokens: whoever has learned the task has more, whoever has not has less.
BOUND = 0.95
# Steps between two looks at the bound.
STEPS = 125
PLACES = {"encoder": "encoder_attention", "decoder": "decoder_attention", "cross": "cross_attention"}
DEFAULTS = inspect.signature(TransformerBackbone.__init__).parameters


def looks(name):
    """Whether the weights of a cross-attention depend on what stands in the source, or asks for it."""
    layer = get_attention(name, SIZES["width"], SIZES["num_heads"], SIZES["max_length"])
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(2, 2, 1, LENGTH, SIZES["width"])).astype("float32")
    first, second = (layer(query, value, return_attention_scores=True)[1] for query, value in pairs)
    return not np.allclose(*map(keras.ops.convert_to_numpy, (first, second)))


def batch(task, rows, seed):
    """Inputs, labels and weights; the sentences to copy are of any length, those to reverse of one."""
    rng = np.random.default_rng([5, seed])
    words = rng.integers(FIRST, FIRST + WORDS, size=(rows, LENGTH))
    lengths = rng.integers(2, LENGTH + 1, size=rows) if task == "copy" else np.full(rows, LENGTH)
    real = np.arange(LENGTH + 1) < lengths[:, None]
    end = np.arange(LENGTH + 1) == lengths[:, None]
    padded = np.concatenate([words, np.zeros((rows, 1), int)], axis=1)
    source = np.where(real, padded, 0) + END * end
    answer = source if task == "copy" else np.concatenate([words[:, ::-1], np.full((rows, 1), END)], axis=1)
    x = {
        "encoder_token_ids": source.astype("int32"),
        "encoder_padding_mask": real | end,
        "decoder_token_ids": np.concatenate([np.full((rows, 1), START), answer[:, :-1]], axis=1).astype("int32"),
    }
    return x, answer.astype("int32"), (real | end).astype("float32")


def learn(task, steps=1000, **arguments):
    """Train a small Transformer until it has learned the task or the steps are over.

    Returns:
        its share of right tokens on sentences that it has not seen, and the steps it took.
    """
    keras.utils.set_random_seed(1)
    vocabulary = FIRST + WORDS
    model = Translator(TransformerBackbone(vocabulary, vocabulary, **{**SIZES, "dropout": 0.0, **arguments}))
    # Without a warm-up the unscaled products of `luong_dot` can saturate before anything is learned.
    model.compile(optimizer=keras.optimizers.Adam(InverseSquareRoot(5e-3, 100), global_clipnorm=1.0))
    unseen = batch(task, 512, seed=steps)
    for taken in range(STEPS, steps + STEPS, STEPS):
        x, y, weights = batch(task, 64 * STEPS, seed=taken - STEPS)
        model.fit(x, y, sample_weight=weights, batch_size=64, verbose=0)
        x, y, weights = unseen
        found = model.evaluate(x, y, sample_weight=weights, batch_size=64, verbose=0, return_dict=True)
        if found["accuracy"] > BOUND:
            break
    return found["accuracy"], taken


def main():
    """Run every mechanism on a task, and those that cannot learn it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("copy", "reverse"), nargs="+", default=["copy", "reverse"])
    parser.add_argument("--names", nargs="+", default=list(ATTENTIONS), choices=list(ATTENTIONS), metavar="NAME")
    options = parser.parse_args()
    failures = 0
    for task in options.task:
        # The other places have their defaults, so that a default of two places need not be run twice.
        cases = [
            ({PLACES[place]: name}, place != "cross" or looks(name))
            for name in options.names
            for place in ATTENTIONS[name].places
            if place == "cross" or name != DEFAULTS[PLACES[place]].default
        ]
        cases.append(({"encoder_positions": "none"}, False))
        for arguments, able in cases:
            began = time.perf_counter()
            accuracy, steps = learn(task, **arguments)
            right = (accuracy > BOUND) == able
            failures += not right
            what = f"{task} {arguments}: accuracy {accuracy:.3f}, {steps} steps, {time.perf_counter() - began:.0f} s"
            print(what, "" if right else "UNEXPECTED", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
