"""`attn-zoo corpora`: list, download and verify corpora by name."""

import argparse
import functools
import textwrap
from typing import TYPE_CHECKING

from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.cli.part_failures import verify_each
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.escapes import printable
from keras_attn_zoo.support.files import shown

if TYPE_CHECKING:
    from keras_attn_zoo.corpora.named_corpora import NamedCorpus


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="describe these corpora (default: a table of all)")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--download", nargs="*", metavar="NAME", help="download these corpora unless they are on this machine"
    )
    actions.add_argument(
        "--verify",
        nargs="*",
        metavar="NAME",
        help="compare these corpora on this machine with their checksums (default: all)",
    )


def run(options: argparse.Namespace) -> None:
    """Print the table or descriptions, or download or verify."""
    if options.download is not None:
        download([*options.names, *options.download])
    elif options.verify is not None:
        verify([*options.names, *options.verify])
    elif options.names:
        print("\n\n".join(map(description, _found(options.names))))
    else:
        print(table())


def table() -> str:
    """Return the table of all corpora, and where they are kept."""
    from keras_attn_zoo.corpora.corpus_folder import VARIABLE, cache_folder, is_here
    from keras_attn_zoo.corpora.named_corpora import catalogue
    from keras_attn_zoo.studies.tabular import markdown_table

    columns = ["corpus", "training pairs", "papers", "terms", "library", "here"]
    rows = [
        [
            corpus.name,
            f"{corpus.pairs[0]:,}" if corpus.pairs[0] else "",
            ", ".join(corpus.papers),
            corpus.terms,
            corpus.library,
            "yes" if is_here(corpus) else "no",
        ]
        for corpus in catalogue().values()
    ]
    return (
        f"{markdown_table(columns, rows)}\n\nThey are kept in {shown(cache_folder())}; set {VARIABLE} for another "
        "folder.\nA name of two languages may be reversed. `attn-zoo corpora NAME` says what a text is, and how to put "
        "it in place by hand."
    )


def description(corpus: "NamedCorpus") -> str:
    """Return what is known about a corpus, and which files to put where by hand."""
    from keras_attn_zoo.corpora.corpus_folder import by_hand, is_here
    from keras_attn_zoo.corpora.named_corpora import PARTS

    known = [f"{count:,} {part}" for part, count in zip(PARTS, corpus.pairs, strict=True) if count]
    facts = {
        "name": corpus.name + (f", and {corpus.reversed_name} for the other direction" * bool(corpus.reversed_name)),
        "text": corpus.title,
        "task": corpus.task,
        "pairs": ", ".join(known) or "unknown",
        "parts": ", ".join(corpus.parts) + "; the others are split off" * (set(corpus.parts) != set(PARTS)),
        **({"tests": ", ".join(("test", *corpus.more_tests))} if corpus.more_tests else {}),
        "page": corpus.home,
        "terms": f"{corpus.terms}; read its page",
        "papers": ", ".join(corpus.papers) or "none",
        "library": corpus.library,
        "here": "yes" if is_here(corpus) else "no",
        "by hand": by_hand(corpus),
    }
    # Names and paths stay whole, for copying.
    whole = textwrap.TextWrapper(120, subsequent_indent=" " * 9, break_on_hyphens=False, break_long_words=False)
    return "\n".join(whole.fill(f"{name:8} {text}") for name, text in facts.items())


def download(names: list[str]) -> None:
    """Download corpora that are not on this machine."""
    from keras_attn_zoo.corpora.corpus_folder import corpus_folder, provide

    if not names:
        raise UserError("--download needs the name of a corpus: `attn-zoo corpora` lists them.")
    for corpus in _found(names):
        manifest = provide(corpus)
        counts = ", ".join(f"{count:,} {part}" for part, count in manifest["pairs"].items())
        print(f"{corpus.name}: {printable(str(corpus_folder(corpus)))} ({counts})")


def verify(names: list[str]) -> None:
    """Compare the corpora on this machine with their checksums."""
    from keras_attn_zoo.corpora.corpus_folder import cache_folder, corpus_folder, is_here, provide
    from keras_attn_zoo.corpora.named_corpora import catalogue

    wanted = _found(names) if names else list(catalogue().values())
    if not names and not any(map(is_here, wanted)):
        print(f"there are no corpora in {shown(cache_folder())}")

    def check(corpus):
        provide(corpus, fetch=False)
        return f"{corpus_folder(corpus)} is unchanged"

    shown_ones = [corpus for corpus in wanted if names or is_here(corpus)]
    verify_each("corpora", [(corpus.name, functools.partial(check, corpus)) for corpus in shown_ones])


def _found(names):
    """The corpora of names; raise before any is used if one is unknown."""
    from keras_attn_zoo.corpora.named_corpora import find_corpus

    return [find_corpus(name)[0] for name in names]


COMMAND = Command(
    "corpora",
    "list, download or verify corpora that --corpus knows by name",
    [
        "attn-zoo corpora",
        "attn-zoo corpora multi30k-de-en",
        "attn-zoo corpora --download multi30k-de-en",
        "attn-zoo corpora --verify",
    ],
    add_arguments,
    run,
)
