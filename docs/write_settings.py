"""Write the tables of reference/settings.md from the table in the code.

python docs/write_settings.py
"""

import re
from pathlib import Path

from keras_attn_zoo.runs.system import SETTINGS
from keras_attn_zoo.support.files import write_text

DOCUMENT = Path(__file__).parent / "reference" / "settings.md"


def with_tables(text):
    """Return a document with a table after each `<!-- settings: PART -->`, up to the `<!-- end -->`."""

    def table(found):
        settings = SETTINGS[found["part"]]
        rows = [f"| `{name}` | {one.help} | `{one.default}` | {one.values} |" for name, one in settings.items()]
        lines = ["| name | meaning | default | values |", "|---|---|---|---|", *rows]
        return "\n".join([found["head"], "", *lines, "", "<!-- end -->"])

    return re.sub(r"(?P<head><!-- settings: (?P<part>\w+) -->).*?<!-- end -->", table, text, flags=re.DOTALL)


if __name__ == "__main__":
    write_text(DOCUMENT, with_tables(DOCUMENT.read_text(encoding="utf-8")))
