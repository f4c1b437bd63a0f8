"""`attn-zoo site`: build the public site."""

import argparse
from pathlib import Path

from keras_attn_zoo.cli.options import if_installed
from keras_attn_zoo.cli.parser import Command, Parser


def add_arguments(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder to write, which is new, empty, or an earlier site"
    )


def run(options: argparse.Namespace) -> None:
    """Build it, and print the size of each part."""
    from keras_attn_zoo.site.site_builder import build_site
    from keras_attn_zoo.studies.tabular import markdown_table

    parts = build_site(options.folder)
    sizes = {**parts, "together": sum(parts.values())}
    print(markdown_table(["part", "MB"], [[name, f"{size / 1e6:.1f}"] for name, size in sizes.items()]))


COMMAND = Command(
    "site",
    "build the public site: live demonstration, gallery, guide, API, presets; any static host can hold the folder",
    ["attn-zoo site public"],
    add_arguments,
    run,
    # It writes what translates in a browser.
    own_backend=lambda options: if_installed("torch"),
)
