"""Write the tables of reference/settings.md and reference/systems.md from those in the code.

python docs/write_settings.py
"""

import re
from pathlib import Path

from keras_attn_zoo.bodies.schema import BODIES
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.files import write_text

PAGES = [Path(__file__).parent / "reference" / page for page in ("settings.md", "systems.md")]
# What one named system has and another does not.
MECHANISMS = (
    *("encoder_attention", "decoder_attention", "cross_attention", "encoder_positions", "decoder_positions"),
    *("normalization", "norm", "activation", "attention_layer", "posterior_feeding", *SETTINGS["Output"]),
)


def settings(part):
    """The table of a part of the settings."""
    yield ["name", "meaning", "default", "values"]
    for name, one in SETTINGS[part].items():
        values = re.sub(r"the name of a mechanism, or \{.*?\}", "a [mechanism](#mechanisms)", str(one.values))
        yield [f"`{name}`", one.help, f"`{one.default}`", values]


def systems(body):
    """The table of the named systems of a body."""
    yield ["name", "mechanisms", "paper"]
    for name, system in SYSTEMS.items():
        if system.body == body:
            own = [f"{one}={system.backbone[one]}" for one in MECHANISMS if one in system.backbone]
            # That of a plain Transformer.
            own = own or [BODIES[body].settings["cross_attention"].default]
            yield [f"`{name}`", ", ".join(f"`{one}`" for one in own).replace("'", ""), system.source]


TABLES = {"settings": settings, "systems": systems}


def with_tables(text):
    """Return a page with a table after each `<!-- TABLE: PART -->`, up to the `<!-- end -->`."""

    def table(found):
        head, *rows = (f"| {' | '.join(row)} |" for row in TABLES[found["table"]](found["part"]))
        line = re.sub(r"[^|]+", "---", head)
        return "\n".join([found["head"], "", head, line, *rows, "", "<!-- end -->"])

    return re.sub(
        rf"(?P<head><!-- (?P<table>{'|'.join(TABLES)}): (?P<part>\w+) -->).*?<!-- end -->", table, text, flags=re.DOTALL
    )


if __name__ == "__main__":
    for page in PAGES:
        write_text(page, with_tables(page.read_text(encoding="utf-8")))
