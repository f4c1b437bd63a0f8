"""The examples of docstrings run, and give what they show."""

import ast
import contextlib
import doctest
import importlib
import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn_zoo

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="alike on all; nothing is compiled on torch")

PACKAGE = Path(keras_attn_zoo.__path__[0])
# Modules with examples, and whether these take a translator for granted.
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): re.search(
        r">>> .*(translator|preprocessor|my_preset|source\.spm)", text
    )
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in (text := path.read_text(encoding="utf-8"))
}
# Names that examples take for granted.
GIVEN = {
    "keras": keras,
    "ops": keras.ops,
    "np": np,
    "layer": keras.layers.Dense(4),
    "query": np.zeros((2, 3, 8)),
}


class Checker(doctest.OutputChecker):
    """Shapes are tuples, whatever a backend makes of them."""

    def check_output(self, want, got, optionflags):
        got = re.sub(r"torch\.Size\(\[(.*?)\]\)", r"(\1)", got)
        return super().check_output(want, got, optionflags)


def checked(test):
    """A doctest in which the comment behind a line without output is what the line gives: a value, or shapes."""
    steps = []
    for example in test.examples:
        source, comment = example.source.rstrip(), ""
        if example.options:
            steps.append(example)
            continue
        shown = example.want or example.exc_msg
        if not shown and "  # " in source.splitlines()[-1]:
            source, _, comment = source.rpartition("  # ")
        statement = ast.parse(source).body[-1]
        silent = shown or not isinstance(statement, ast.Expr)
        example.source = source if silent else f"given = ({source}\n)"
        example.source += "\n"
        steps.append(example)
        with contextlib.suppress(SyntaxError, ValueError):
            ast.literal_eval(comment)
            name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else "given"
            steps.append(doctest.Example(f"matches({name}, ({comment}))\n", "True\n", lineno=example.lineno))
    test.examples = steps
    return test


def matches(value, expected):
    """Whether a value is what a comment says: tensors by shape where it says sizes, numbers to its last digit."""
    if isinstance(value, tuple | list):
        return len(value) == len(expected) and all(map(matches, value, expected))
    if hasattr(value, "shape") and isinstance(expected, tuple):
        return tuple(value.shape) == expected
    if hasattr(value, "shape"):
        value = keras.ops.convert_to_numpy(value).tolist()
    return bool(np.allclose(value, expected, rtol=1e-3)) if isinstance(expected, float | list) else value == expected


def examples(module):
    """The doctests of what is defined in a module."""
    found = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module), module)
    return [checked(test) for test in found if test.examples]


def run(module, given):
    """Run the examples of a module."""
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
    said = []
    for test in examples(module):
        test.globs.update({name: value for name, value in given.items() if name not in test.globs})
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


@pytest.mark.parametrize("module", [name for name, needs_translator in MODULES.items() if not needs_translator])
def test_examples(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # An example chooses a backend: that must not be the backend of the processes that later tests start.
    monkeypatch.setenv("KERAS_BACKEND", os.environ["KERAS_BACKEND"])
    run(module, {**GIVEN, "matches": matches})


@pytest.mark.parametrize("module", [name for name, needs_translator in MODULES.items() if needs_translator])
def test_examples_with_a_translator(module, trained, tmp_path, monkeypatch):
    from keras_attn_zoo.translators import Translator

    monkeypatch.chdir(tmp_path)
    Path("my_preset").symlink_to(trained / "best")
    translator = Translator.from_preset("my_preset")
    Path("source.spm").write_bytes(translator.preprocessor.source_tokenizer.proto)
    run(module, {**GIVEN, "matches": matches, "translator": translator, "preprocessor": translator.preprocessor})
