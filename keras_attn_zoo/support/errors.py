"""The error for bad input, what its messages share, and checks of sizes, rates and names of arguments."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input from the user: a file, a name, an option.

    The message is one line: what was received, and what to do about it. The
    command line prints it without a traceback and exits with status 2.

    Args:
        message: for a caller in Python.
        for_shell: what the command line prints instead, where the remedy is an option there.

    Example:
        >>> raise UserError("corpus.de has 3 lines, corpus.en has 4: give files of equal length.")
        Traceback (most recent call last):
        ...
        keras_attn_zoo.support.errors.UserError: corpus.de has 3 lines, corpus.en has 4: give files of equal length.
    """

    def __init__(self, message: str, for_shell: str | None = None) -> None:
        super().__init__(message)
        self.for_shell = message if for_shell is None else for_shell


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, for a message.

    Example:
        >>> counted(1, "sentence"), counted(2, "sentence")
        ('1 sentence', '2 sentences')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def choice(name: str, names: Iterable[str]) -> str:
    """Return the end of a message on a name that is none of some: the nearest of these, or all.

    Example:
        >>> choice("bahdanow", ["bahdanau", "uniform"]), choice("x", ["bahdanau", "uniform"])
        ('did you mean bahdanau?', 'choose one of bahdanau, uniform.')
    """
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(names)}."


def check_counts(**values: int) -> None:
    """Raise a `UserError`, which names the argument, unless all values are positive integers.

    Example:
        >>> check_counts(width=512, num_heads=8)
    """
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise UserError(f"{name} must be a positive integer; received {value!r}.")


def check_rates(**values: float) -> None:
    """Raise a `UserError`, which names the argument, unless all values are dropout rates.

    Example:
        >>> check_rates(dropout=0.1)
    """
    for name, value in values.items():
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise UserError(f"{name} must be at least 0 and below 1; received {value!r}.")


def check_arguments(model: object, arguments: Iterable[str]) -> None:
    """Raise a `UserError` if a functional model does not know arguments of its constructor: Keras would ignore them."""
    for argument in sorted(set(arguments) - {"inputs", "outputs", "name", "trainable", "dtype"}):
        raise UserError(f"{type(model).__name__} has no argument {argument}: leave it out, or correct it.")
