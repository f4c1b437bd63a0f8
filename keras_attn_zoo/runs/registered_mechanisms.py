"""The mechanisms of the registry, as their files declare them: for command lines, which have chosen no backend yet."""

import ast
import dataclasses
from pathlib import Path

_LAYERS = Path(__file__).resolve().parents[1] / "layers"


@dataclasses.dataclass(frozen=True)
class Registered:
    """A mechanism, as its decorator has it.

    Attributes:
        name: its name in `ATTENTIONS`.
        places: where it can be used.
        year: when it was published.
        has_heads: whether it takes heads.
    """

    name: str
    places: tuple[str, ...]
    year: int
    has_heads: bool


def registered_mechanisms() -> list[Registered]:
    """Return the mechanisms of this package, the oldest first. This does not import Keras.

    Example:
        >>> [one.places for one in registered_mechanisms() if one.name == "multi_head"]
        [('encoder', 'decoder', 'cross')]
    """
    found = []
    for path in sorted(_LAYERS.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for call in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "attention":
                    found.append(_declared(call))
    return sorted(found, key=lambda one: one.year)


def _declared(call):
    (name,), given = call.args, {one.arg: one.value for one in call.keywords}
    places, year = (ast.literal_eval(given[key]) for key in ("places", "year"))
    arguments = ast.unparse(given["arguments"]) if "arguments" in given else ""
    return Registered(ast.literal_eval(name), tuple(places), year, "sizes.heads" in arguments)
