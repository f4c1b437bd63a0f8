"""Settings in a TOML file."""

import tomllib
from pathlib import Path
from typing import Any

from keras_attn_zoo.runs.system import SETTINGS, check_settings
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.files import PathLike, check_file, reason_of, shown
from keras_attn_zoo.support.setting_types import Mechanism, shown_value


def read_settings(path: PathLike) -> dict[str, Any]:
    """Read settings from a TOML file, by name; None is the word `"none"`, for TOML has no such value.

    Args:
        path: a file with lines such as `epochs = 3`. A table that is no description of a mechanism has arguments of
            one: `cross_attention.window = 3`.

    Raises:
        UserError: the file cannot be read or is not TOML; a table that names no mechanism; an unknown name, a value of
            the wrong type or out of bounds.

    Example:
        >>> read_settings("settings.toml")  # doctest: +SKIP
        {'epochs': 3.0, 'hidden_dim': 256}
    """
    check_file(path)
    try:
        found = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"cannot read {shown(path)}: {reason_of(error)}. Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{shown(path)} is not TOML ({error}): write lines such as epochs = 3.") from None
    flat = {}
    for name, value in found.items():
        if isinstance(value, dict) and "attention" not in value:
            parts = SETTINGS.values()
            mechanisms = sorted({one for part in parts for one in part if isinstance(part[one], Mechanism)})
            if name not in mechanisms:
                raise UserError(
                    f"{shown(path)}: {shown_value(name)} is a table, but no mechanism: {choice(name, mechanisms)} "
                    "Write settings above all tables, such as epochs = 3."
                )
            flat.update({f"{name}.{argument}": one for argument, one in value.items()})
        else:
            flat[name] = value
    try:
        return check_settings(flat)
    except UserError as error:
        raise UserError(f"{shown(path)}: {error}") from None
