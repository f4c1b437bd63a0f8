"""The page: one HTML file with everything in it."""

import base64
import hashlib
import logging
import textwrap
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from keras_attn_zoo.support.escapes import in_html, is_printable
from keras_attn_zoo.support.files import PathLike, shown, write_text
from keras_attn_zoo.viewing.page_packing import pack
from keras_attn_zoo.viewing.page_records import Result, Sentence, System

# In the order in which they build upon each other.
_SCRIPTS = (
    *("data.js", "shared.js", "views.js", "ribbons.js", "matrix.js", "panel.js"),
    *("search.js", "live_page.js", "page.js"),
)
# What translates in a browser, apart from the page.
_WORKER = ("shared.js", "live_words.js", "live_text.js", "live_search.js", "live_model.js", "live_worker.js")
# What a policy says of programs that translate. SentencePiece's, as Emscripten builds it, makes functions of text.
_PROGRAMS = " 'self' 'wasm-unsafe-eval' 'unsafe-eval'"
_HEIGHT = 720
# Characters of a sentence in the title.
_TITLE = 60
# What opens at once on a phone, and goes by mail; larger pages are written with a warning.
LARGE = 2_000_000
_LOG = logging.getLogger(__name__)


class Page:
    """A page that shows what attends to what, and how a search went.

    It shows itself in a notebook; `save` writes it as one HTML file, which opens without a network.
    `Translator.explore` makes it.

    Args:
        systems: the systems.
        sentences: the sentences.
        results: for each sentence, the `Result` of each system.

    Example:
        >>> page = translator.explore(["Guten Morgen."])
        >>> page.save("page.html")
    """

    def __init__(
        self, systems: Sequence[System], sentences: Sequence[Sentence], results: Sequence[Sequence[Result]]
    ) -> None:
        self.systems, self.sentences, self.results = list(systems), list(sentences), list(results)

    def html(self, live: bool | Mapping[str, Any] = False) -> str:
        """Return the page; a live one takes more sentences.

        Args:
            live: whether the server that serves it translates them; or, if the browser does, what it needs for that, as
                `write_live_folder` makes it.
        """
        parts = {
            "TITLE": in_html(self._title()),
            "POLICY": self.policy(live),
            "STYLE": _style(),
            "SCRIPT": _script(_SCRIPTS),
            "LIVE": "saved" if not live else "live" if live is True else "browser",
            "DATA": pack(self.systems, self.sentences, self.results, {} if isinstance(live, bool) else {"live": live}),
        }
        before, *rest = asset("page.html").split("@@")
        # Odd parts are names.
        return before + "".join(parts[part] if i % 2 == 0 else part for i, part in enumerate(rest))

    def policy(self, live: bool | Mapping[str, Any] = False) -> str:
        """Return the content security policy of `html`: only the style and the script on the page count.

        Where the browser translates, programs of the page's own origin count too, and the worker that runs them, which
        has the same policy: nothing can be sent elsewhere.
        """
        in_browser = bool(live) and live is not True
        policy = [
            "default-src 'none'",
            f"script-src '{_hash(_script(_SCRIPTS))}'{_PROGRAMS if in_browser else ''}",
            f"style-src '{_hash(_style())}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            *(["connect-src 'self'"] if live else []),
            *(["worker-src 'self' blob:"] if in_browser else []),
        ]
        return "; ".join(policy)

    def _title(self):
        """The systems and the first sentence, by which a tab of the browser is found again."""
        title = ", ".join(system.name for system in self.systems) or "Attention"
        if self.sentences:
            title += f": {textwrap.shorten(self.sentences[0].text, _TITLE, placeholder=' …')}"
        # Such as a lone surrogate, which no file can hold.
        return "".join(character if is_printable(character) else " " for character in title)

    def save(self, path: PathLike) -> None:
        """Write the page; the file is whole or absent. A warning says how to make a large one smaller.

        Raises:
            UserError: it cannot be written.
        """
        text = self.html()
        write_text(path, text)
        size = len(text.encode())
        if size > LARGE:
            _LOG.warning(
                "%s has %.1f MB and may open slowly: to make it smaller, leave out sentences or systems, or search "
                "with fewer beams.",
                shown(path),
                size / 1e6,
            )

    def _repr_html_(self) -> str:
        """Show the page in a notebook, apart from the notebook's own styles and scripts."""
        return (
            f'<iframe srcdoc="{in_html(self.html())}" sandbox="allow-scripts" title="attention" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 1px solid #8884; border-radius: 6px"></iframe>'
        )


def asset(name: str) -> str:
    """Return a file that a page is made of, such as "theme.css"."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _style():
    return asset("theme.css") + asset("style.css")


def worker() -> str:
    """Return the script of the worker that translates in a browser."""
    return _script(_WORKER)


def _script(names):
    script = "\n".join(map(asset, names))
    return f'"use strict";\n(() => {{\n{script}\n}})();'


def _hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
