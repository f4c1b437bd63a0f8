"""Count the functions that a sentence, and a setting, pass through from the command line.

python docs/count_hops.py

A function of the package counts if an argument is the value, or a container that holds it: for the sentence of a
`translate`, until subwords become its ids; for a `--set` of a `train`, until the layer's constructor takes it.
"""

import argparse
import dataclasses
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESET = ROOT / "presets" / "uniform_tatoeba_de_en"
# Neither occurs anywhere else.
SENTENCE, UNITS = "Ich habe heute Hunger.", 12347
# Containers in containers: a namespace of lists of pairs.
DEEPEST = 3


class Arrived(BaseException):
    """The value is where it was to go; no handler of errors stops this."""


def holds(x, is_value, depth=DEEPEST):
    """Whether it is the value, or holds it."""
    if is_value(x):
        return True
    if isinstance(x, argparse.Namespace):
        x = vars(x)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        x = {field.name: getattr(x, field.name, None) for field in dataclasses.fields(x)}
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple, set, frozenset)) else ()
    return depth > 0 and any(holds(part, is_value, depth - 1) for part in parts)


def functions(run, is_value, last, package):
    """The functions of a package that take the value while something runs, in turn, up to the one named `last`."""
    found = {}

    def watch(frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(f"{package}{os.sep}") or code.co_name.startswith("<"):
            return
        taken = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        if any(holds(frame.f_locals.get(name), is_value) for name in code.co_varnames[:taken]):
            found[code] = f"{Path(code.co_filename).relative_to(package)}: {code.co_qualname}"
            if code.co_qualname == last:
                raise Arrived

    sys.setprofile(watch)
    try:
        run()
    except Arrived:
        return list(found.values())
    finally:
        sys.setprofile(None)
    raise RuntimeError(f"{last} took no value; these did: {', '.join(found.values())}")


def of_sentence():
    """The functions that a sentence to be translated is passed to."""
    from keras_attn_zoo import cli

    def run():
        cli.main(["translate", str(PRESET), SENTENCE])

    return functions(run, lambda x: isinstance(x, str) and x == SENTENCE, "Subwords.encode", ROOT / "keras_attn_zoo")


def of_setting():
    """The functions that an argument of the attention is passed to, as a word of the command line or as a number."""
    from keras_attn_zoo import cli

    sizes = ["embedding_dim=8", "hidden_dim=8", "readout_dim=8", "vocabulary_size=14", "model_type=word"]
    setting = f"cross_attention.units={UNITS}"

    def is_value(x):
        return setting in x if isinstance(x, str) else type(x) is int and x == UNITS

    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.tsv")
        text.write_text("".join(f"{word} Haus\t{word} house\n" for word in "abcdefghij" * 4), encoding="utf-8")
        files = [option for name in ("--train", "--valid", "--test") for option in (name, str(text))]

        def run():
            command = ["train", "--system", "bahdanau", *files, "--run", f"{folder}/run", "--set", setting, *sizes]
            cli.main(command)

        return functions(run, is_value, "BahdanauAttention.__init__", ROOT / "keras_attn_zoo")


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")
    for passed in (of_sentence(), of_setting()):
        print(f"{len(passed)}:", *passed, sep="\n  ")
