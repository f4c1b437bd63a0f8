"""What all pages of the site have in common: head, policy, navigation."""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from keras_attn_zoo.support.escapes import in_html
from keras_attn_zoo.viewing.page_packing import safe_json

ASSETS = ("site.css", "site.js", "landing.js", "gallery.js", "playground.js")
# The parts of the site, by where they begin.
_PARTS = {
    "index.html": "Live",
    "gallery/index.html": "Gallery",
    "guide/index.html": "Guide",
    "guide/api/layers.html": "API",
    "presets/index.html": "Presets",
}


def page(path: str, title: str, description: str, body: str, scripts: Iterable[str] = ()) -> str:
    """Return a page of the site, which loads nothing from elsewhere.

    Args:
        path: where it stands, such as "gallery/index.html".
        title, description: for tabs and search engines.
        body: what its `main` holds, as HTML.
        scripts: assets that it runs besides that of every page.
    """
    root = "../" * path.count("/")
    links = (f'<a href="{root}{place}"{_current(place, path)}>{name}</a>' for place, name in _PARTS.items())
    parts = {
        "ROOT": root,
        "TITLE": in_html(title),
        "DESCRIPTION": in_html(description),
        "LINKS": "\n".join(links),
        "SCRIPTS": "".join(f'\n<script src="{root}assets/{name}" defer></script>' for name in scripts),
        "BODY": body,
    }
    before, *rest = asset("frame.html").split("@@")
    # Odd parts are names.
    return before + "".join(parts[part] if i % 2 == 0 else part for i, part in enumerate(rest))


def asset(name: str) -> str:
    """Return a file that the pages are made of, or load."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def data_block(identifier: str, value: Mapping[str, Any]) -> str:
    """Return data for a script, as an element that runs nothing."""
    return f'<script type="application/json" id="{identifier}">{safe_json(value)}</script>'


def table(label: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, its cells as HTML, that can be scrolled where it is too wide.

    Args:
        label: what assistive technology calls it.
        columns: the heads.
        rows: the cells of each row.
    """
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _current(place, path):
    """Marks the link to the part that a page belongs to."""
    if place == path:
        return ' aria-current="page"'
    return ' aria-current="true"' if "/" in path and place.split("/")[0] == path.split("/")[0] else ""
