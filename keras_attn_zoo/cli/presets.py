"""`attn-zoo presets`: list, download, verify and publish presets, here and on the public site."""

import argparse
import functools
import logging
import re
from pathlib import Path

from keras_attn_zoo.cli.parser import Command, Parser, checked
from keras_attn_zoo.cli.part_failures import verify_each
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.escapes import printable
from keras_attn_zoo.support.files import check_file, kind_of, shown

_LOG = logging.getLogger(__name__)
_NONE = "no presets are published with this version"
_ACCOUNT = re.compile(r"(?P<account>(?P<scheme>hf|kaggle)://[\w.-]+)/?", re.ASCII)
_SITE = re.compile(r"(?P<url>https?://([\w.-]+|\[[\da-f:]+\])(:[0-9]{1,5})?(/[\w./~%-]*[\w~])?)/*", re.ASCII)
# What both hubs take as the name of a model.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}", re.ASCII)


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
        found = map(facts["scores"].get, ("bleu", "chrf", "ter", "aer"))
        scores = ["" if score is None else f"{score:.1f}" for score in found]
        folder = local_path(name)
        place = "no" if folder is None or not is_preset(folder) else place_of(folder)
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

    for name in names:
        if name in published():
            continue
        if names_preset(name):
            raise UserError(f"{shown(name)} is a preset of your own, in {VARIABLE}: there is no published one.")
        raise UserError(f"there is no published preset {shown(name)}: {nearest(name)}")
    if not published():
        print(_NONE)
    return names or list(published())


def _add_publish(parser: Parser) -> None:
    parser.add_argument("presets", type=Path, metavar="DIR", help="folder with one subfolder per preset")
    parser.add_argument("address", metavar="ADDRESS", help="an account: hf://USER or kaggle://USER")


def _publish(options: argparse.Namespace) -> None:
    from keras_attn_zoo.presets.hub_presets import upload

    address = _ACCOUNT.fullmatch(options.address)
    if address is None:
        raise UserError(f"cannot publish to {shown(options.address)}: give hf://USER or kaggle://USER.")
    presets = _presets_in(options.presets)
    for preset in presets:
        target = f"{address['account']}/{preset.name}"
        # A model on Kaggle also has a framework and a variation.
        target += f"/keras/{preset.name}" if address["scheme"] == "kaggle" else ""
        _LOG.info("uploading %s to %s", shown(preset), target)
        upload(preset, target)
        print(f"{preset.name}: {target}", flush=True)


def _presets_in(folder):
    """Return the folders of the presets in a folder, all checked before the first is uploaded."""
    from keras_attn_zoo.presets.preset_checks import check_preset
    from keras_attn_zoo.presets.preset_reading import check_folder
    from keras_attn_zoo.support.checksums import CHECKSUMS

    files = [path for name in ("config.json", CHECKSUMS) for path in folder.glob(f"*/{name}")]
    presets = sorted({path.parent for path in files}) if kind_of(folder) == "folder" else []
    if not presets:
        raise UserError(f"there are no presets in {shown(folder)}: give a folder with one subfolder per preset.")
    for preset in presets:
        if not _NAME.fullmatch(preset.name):
            raise UserError(
                f"a hub does not take {shown(repr(preset.name))} as the name of a model: rename {shown(preset)}, to at "
                "most 50 letters without accents, digits, dots, dashes and underscores."
            )
        check_file(preset / CHECKSUMS)
        check_preset(str(preset))
        check_folder(preset)
    return presets


def _add_verify_remote(parser: Parser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="presets to verify alone (default: the whole site)")
    parser.add_argument(
        "--base-url",
        type=checked(_site),
        metavar="URL",
        help="address of a copy of the site, below which are presets/NAME (default: the public site)",
    )


def _site(text):
    site = _SITE.fullmatch(text)
    if site is None:
        raise UserError(f"{shown(text)} is not an address of the form https://HOST/FOLDER")
    return site["url"]


def _verify_remote(options: argparse.Namespace) -> None:
    """Compare presets on a server with the registry, a whole site with its checksums; print a line for each fault."""
    from keras_attn_zoo.presets.preset_registry import base_of
    from keras_attn_zoo.presets.preset_site import verify_preset, verify_site

    wrong = 0
    for name in _checked(options.names):
        faults = verify_preset(name, options.base_url)
        for file, fault in faults.items():
            print(f"{name}/{file}: {fault}", flush=True)
        if not faults:
            print(f"{name}: as published", flush=True)
        wrong += len(faults)
    if not options.names:
        rest = verify_site(options.base_url)
        for path, fault in rest.items():
            print(f"{printable(path)}: {fault}", flush=True)
        if not rest:
            print("the rest of the site: as published", flush=True)
        wrong += len(rest)
    if wrong:
        raise UserError(f"{counted(wrong, 'file')} not as published at {base_of(options.base_url)}: see above.")


_VERIFY_REMOTE = Command(
    "verify-remote",
    "verify that every file of the public site is there as published, without storing any",
    ["attn-zoo presets verify-remote", "attn-zoo presets verify-remote --base-url http://localhost:8000"],
    _add_verify_remote,
    _verify_remote,
    list_argument="names",
    needs_keras=lambda options: False,
)
_PUBLISH = Command(
    "publish",
    "upload all presets in a folder to a hub, each under its name",
    ["attn-zoo presets publish presets hf://user"],
    _add_publish,
    _publish,
)
COMMAND = Command(
    "presets",
    "list, download, verify or publish the presets of this version",
    [
        "attn-zoo presets",
        "attn-zoo presets --download transformer_tatoeba_de_en",
        "attn-zoo presets --verify",
        "attn-zoo presets verify-remote",
        "attn-zoo presets publish presets hf://user",
    ],
    add_arguments,
    run,
    subcommands=[_VERIFY_REMOTE, _PUBLISH],
    needs_keras=lambda options: False,
)
