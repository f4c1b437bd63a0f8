"""Count the functions of the package between a command line and its effect, and list them.

    python docs/count_hops.py setting    # from `train --set`, to the first layer of the model that is trained
    python docs/count_hops.py sentence   # from `translate`, to the subword model

A function is passed a value if an argument is the value or holds it: a list, a dict, a dataclass, parsed options. It
hands the value on if it returns it, or is still running when the value arrives. What a body is checked with before
training, in a thread of its own, is left out.
"""

import argparse
import dataclasses
import functools
import os
import random
import sys
import tempfile
from pathlib import Path

import keras_attn_zoo

PACKAGE = Path(keras_attn_zoo.__file__).parent
PRESETS = PACKAGE.parent / "presets"
# Unlike any other number, and any other sentence.
SETTING, NUMBER, SENTENCE = "width=904", 904, "Ein Hund schläft."
WORDS = ["ein", "Hund", "Haus", "rot", "Baum", "blau", "schläft", "alt"]


class Arrived(BaseException):
    """The value is where it was to go."""


class Road:
    """A function for `sys.setprofile` that keeps the functions which are passed a value.

    Args:
        values: forms of the value.
        arrived: function of a frame that is entered: whether this is where the value was to go.

    Attributes:
        passed: names of functions, in order.
        handed_on: names of functions that returned the value, or were running when it arrived.
    """

    def __init__(self, values, arrived):
        self.values, self.arrived = values, arrived
        self.passed, self.handed_on = [], set()

    def __call__(self, frame, event, result):
        """Look at a function that is entered or left."""
        name = name_of(frame.f_code)
        if event == "call":
            if name and name not in self.passed and self.holds(arguments(frame)):
                self.passed.append(name)
            if self.arrived(frame):
                while frame := frame.f_back:
                    self.handed_on.add(name_of(frame.f_code))
                raise Arrived
        if event == "return" and name and self.holds(result):
            self.handed_on.add(name)

    def holds(self, one, depth=6):
        """Whether an object is the value or holds it."""
        if isinstance(one, str | int):
            return one in self.values
        if isinstance(one, argparse.Namespace) or (dataclasses.is_dataclass(one) and not isinstance(one, type)):
            one = getattr(one, "__dict__", {})
        inside = one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple) else ()
        return depth > 0 and any(self.holds(part, depth - 1) for part in list(inside))


@functools.cache
def name_of(code):
    """The name of a function of the package; None for any other, and for comprehensions."""
    path = Path(code.co_filename)
    if code.co_name.startswith("<") or not path.is_relative_to(PACKAGE):
        return None
    return f"{path.relative_to(PACKAGE)}: {code.co_qualname}"


def arguments(frame):
    """The arguments of a call, without the object whose method is called."""
    code = frame.f_code
    # *args and **kwargs come after all others.
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return [frame.f_locals.get(name) for name in code.co_varnames[:count] if name != "self"]


def at_layer(frame):
    """Whether a layer is being created with the number."""
    if frame.f_code.co_name != "__init__" or not any(type(one) is int and one == NUMBER for one in arguments(frame)):
        return False
    import keras

    own = frame.f_locals.get("self")
    return isinstance(own, keras.layers.Layer) and not isinstance(own, keras.Model)


def at_subword_model(frame):
    """Whether SentencePiece is being called."""
    return "sentencepiece" in frame.f_code.co_filename and frame.f_code.co_name.lower().startswith("encode")


def training():
    """A road and a command line that trains on a text made up here."""
    files = []
    for name in ("train", "valid", "test"):
        pairs = ("\t".join(" ".join(random.choices(WORDS, k=4)) for _ in range(2)) for _ in range(40))
        Path(f"{name}.tsv").write_text("".join(f"{pair}\n" for pair in pairs), encoding="utf-8")
        files += [f"--{name}", f"{name}.tsv"]
    line = ["train", "--system", "transformer", "--small", "--run", "run", *files]
    return Road((SETTING, str(NUMBER), NUMBER), at_layer), [*line, "--set", "vocabulary_size=40", SETTING]


def translating():
    """A road and a command line that translates a sentence."""
    preset = min(PRESETS.glob("*/config.json")).parent
    return Road((SENTENCE,), at_subword_model), ["translate", str(preset), SENTENCE]


def main():
    """Run a command until the value arrives, and print its road."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("road", choices=("setting", "sentence"))
    follow = {"setting": training, "sentence": translating}[parser.parse_args().road]

    from keras_attn_zoo import cli

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        road, line = follow()
        sys.setprofile(road)
        try:
            status = cli.main(line)
        except Arrived:
            status = None
        sys.setprofile(None)
        os.chdir(PACKAGE)
    if status is not None:
        raise SystemExit("the value did not arrive.")
    handed = [name for name in road.passed if name in road.handed_on]
    print(f"passed to {len(road.passed)} functions; handed on by {len(handed)}:")
    print("\n".join(f"  {name}" for name in handed))


if __name__ == "__main__":
    main()
