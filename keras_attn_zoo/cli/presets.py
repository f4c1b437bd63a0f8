"""`attn-zoo presets`: list, download and verify presets."""

import argparse
import functools

from keras_attn_zoo.cli import presets_publish
from keras_attn_zoo.cli.parser import Command, Parser
from keras_attn_zoo.cli.verification import verify_each
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.escapes import printable

_NONE = "no presets are published with this version"


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--download",
        nargs="*",
        metavar="NAME",
        help="download these presets to the cache unless they are on this machine as published (default: all)",
    )
    actions.add_argument(
        "--verify",
        nargs="*",
        metavar="NAME",
        help="compare these presets on this machine with their published checksums (default: all)",
    )


def run(options: argparse.Namespace) -> None:
    """Print the table, or download or verify."""
    if options.download is not None:
        download(options.download)
    elif options.verify is not None:
        verify(options.verify)
    else:
        print(table())


def table() -> str:
    """Return the table of all published presets."""
    from keras_attn_zoo.presets.preset_registry import is_preset, local_path, place_of, published, size_of
    from keras_attn_zoo.studies.tabular import markdown_table

    if not published():
        return _NONE
    columns = ["preset", "system", "BLEU", "chrF", "TER", "AER", "parameters", "size", "here"]
    rows = []
    for name, facts in published().items():
        scores = [_number(facts["scores"].get(score)) for score in ("bleu", "chrf", "ter", "aer")]
        found = local_path(name)
        place = "no" if found is None or not is_preset(found) else place_of(found)
        rows.append(
            [
                name,
                facts["system"],
                *scores,
                f"{facts['parameters'] / 1e6:.1f} M",
                f"{size_of(facts) / 1e6:.1f} MB",
                place,
            ]
        )
    return markdown_table(columns, rows, text=("system", "here"))


def _number(value):
    return "" if value is None else f"{value:.1f}"


def download(names: list[str]) -> None:
    """Download presets that are not on this machine, or not as published."""
    from keras_attn_zoo.presets.preset_registry import fetch_preset, is_published, local_folder, published_folder

    for name in _checked(names):
        folder = local_folder(name)
        # The user's own folder may hold another preset of this name, in front of the published one.
        if folder is None or not is_published(name, folder):
            folder = published_folder(name) or fetch_preset(name)
        print(f"{name}: {printable(str(folder))}")


def verify(names: list[str]) -> None:
    """Compare the presets on this machine with their published checksums."""
    from keras_attn_zoo.presets.preset_registry import VARIABLE, check_published, local_path, place_of

    def check(name):
        folder = local_path(name)
        if folder is None and names:
            raise UserError(f"not on this machine: attn-zoo presets --download {name}")
        if folder is None:
            return "not on this machine"
        try:
            check_published(name, folder)
        except UserError:
            if place_of(folder) != "own":
                raise
            raise UserError(
                f"{folder}, in {VARIABLE}, is not the published preset but takes its place: keep it if it is your own, "
                "or remove it."
            ) from None
        return f"{folder} is as published"

    verify_each("presets", [(name, functools.partial(check, name)) for name in _checked(names)])


def _checked(names):
    """Return the names, by default all; raise if one is not published."""
    from keras_attn_zoo.presets.preset_registry import VARIABLE, names_preset, nearest, published
    from keras_attn_zoo.support.files import shown

    for name in names:
        if name in published():
            continue
        if names_preset(name):
            raise UserError(f"{shown(name)} is a preset of your own, in {VARIABLE}: there is no published one.")
        raise UserError(f"there is no published preset {shown(name)}: {nearest(name)}")
    if not published():
        print(_NONE)
    return names or list(published())


COMMAND = Command(
    "presets",
    "list, download, verify or publish the presets of this version",
    [
        "attn-zoo presets",
        "attn-zoo presets --download transformer_tatoeba_de_en",
        "attn-zoo presets --verify",
        "attn-zoo presets publish presets hf://user",
    ],
    add_arguments,
    run,
    subcommands=[presets_publish.COMMAND],
)
