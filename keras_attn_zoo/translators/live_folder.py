"""A folder of static files with a page on which translators translate in the browser."""

import dataclasses
import logging
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.presets.onnx_weights import StoredWeights
from keras_attn_zoo.presets.weight_storage import holds_int8
from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, atomic_path, kind_of, read_json, shown, write_json, write_text
from keras_attn_zoo.translators.onnx_export import check_onnx_export, check_program, export_to_onnx, exported_search
from keras_attn_zoo.translators.onnx_following import ATTENTION, FOLLOW, write_following
from keras_attn_zoo.translators.onnx_graphs import SearchPrograms
from keras_attn_zoo.translators.translator import Translator
from keras_attn_zoo.viewing.browser_libraries import ONNXRUNTIME, SENTENCEPIECE, WASM, write_libraries
from keras_attn_zoo.viewing.page import Page, worker
from keras_attn_zoo.viewing.page_packing import SCALES, system_record
from keras_attn_zoo.viewing.page_records import PLACES

_LOG = logging.getLogger(__name__)
PAGE, WORKER = "index.html", "live.js"
_WEIGHTS, _LIBRARIES, _MODELS = "model.weights.h5", "libraries", "models"
# No suffix that a server knows: it would say so to the browser, which would inflate the file by itself.
_DEFLATED = ".deflated"


@dataclasses.dataclass(frozen=True)
class LiveModel:
    """A translator of a live page.

    Args:
        translator: the translator, loaded from the preset.
        preset: the folder of a preset that is stored in int8.
        address: where the site has the files of the preset, relative to the page; None to copy them.
        languages: codes of source and target, such as "de" and "en", by which the page groups models; None if unknown.
    """

    translator: Translator
    preset: Path
    address: str | None = None
    languages: tuple[str, str] | None = None


def write_live_folder(models: Mapping[str, LiveModel], folder: PathLike) -> None:
    """Write a page on which translators, by their names, translate in the browser, with all that it needs.

    Any web server can hold the folder; the page loads nothing from elsewhere, and sends nothing. A model is three
    programs of ONNX, which find their weights in the weight file of the preset, and its subwords.

    Args:
        models: the translators.
        folder: where to write; there must not be anything yet.

    Raises:
        UserError: see `export_to_onnx`; a search with a pool of finished hypotheses; no network for the libraries, see
            `write_libraries`.

    Example:
        >>> write_live_folder({"bahdanau": LiveModel(translator, preset)}, "live")  # doctest: +SKIP
    """
    check_onnx_export(folder)
    for name, model in models.items():
        if "pooled" in exported_search(model.translator):
            raise UserError(
                f"{shown(name)} is searched with a pool of finished hypotheses, which records no steps to show: "
                "compile it with a BeamSearch."
            )
    with atomic_path(folder) as aside:
        aside.mkdir()
        write_libraries(aside / _LIBRARIES)
        (aside / _MODELS).mkdir()
        places = _places(models)
        live: dict[str, Any] = {
            "models": [
                _write_model(name, model, aside, f"{_MODELS}/{place}")
                for (name, model), place in zip(models.items(), places, strict=True)
            ],
            "libraries": {
                "onnxruntime": _record(aside / _LIBRARIES / ONNXRUNTIME, f"{_LIBRARIES}/{ONNXRUNTIME}"),
                # A quarter of its size, whatever the server does.
                "wasm": _deflated(aside / _LIBRARIES / WASM, f"{_LIBRARIES}/{WASM}"),
                "sentencepiece": _record(aside / _LIBRARIES / SENTENCEPIECE, f"{_LIBRARIES}/{SENTENCEPIECE}"),
            },
            "scale": SCALES[0],
            "places": PLACES,
        }
        write_text(aside / WORKER, worker())
        write_text(aside / PAGE, Page([], [], []).html(live))


def _places(models: Mapping[str, LiveModel]) -> Iterator[str]:
    """Yield a name for the folder of each model, of letters that an address may have, and not told apart by case."""
    taken: set[str] = set()
    for number, name in enumerate(models):
        place = re.sub(r"[^A-Za-z0-9_-]+", "-", name)
        while place.lower() in taken:
            place = f"{place}-{number}"
        taken.add(place.lower())
        yield place


def stored_in_int8(translator: Translator, preset: PathLike, aside: Path) -> LiveModel:
    """Return a translator as a live page takes it: from its own preset, or from a copy of it in int8.

    Args:
        translator: the translator.
        preset: what it was loaded from.
        aside: where to write the copy.
    """
    if kind_of(Path(preset) / _WEIGHTS) == "file" and holds_int8(Path(preset) / _WEIGHTS):
        return LiveModel(translator, Path(preset))
    translator.save_to_preset(aside, storage="int8")
    copy = Translator.from_preset(aside, dtype="float32")
    settings: Any = translator.search_settings
    copy.search_settings = settings
    return LiveModel(copy, aside)


def _write_model(name, model, folder, place):
    """Write the files of a model; return what the page has to know of it."""
    _LOG.info("making %s translate in a browser, which takes a minute or two", shown(name))
    own = folder / place
    with tempfile.TemporaryDirectory() as temporary:
        export_to_onnx(model.translator, Path(temporary) / "exported")
        shutil.move(Path(temporary) / "exported", own)
    description: dict[str, Any] = read_json(own / "translator.json")
    preprocessor = model.translator.preprocessor
    lengths = preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length
    settings = model.translator.search_settings
    programs = SearchPrograms(model.translator.backbone, lengths, settings["search_top_k"], renormalize=True)
    description["follow"] = write_following(programs, own)
    description["weights"] = _WEIGHTS
    stored = StoredWeights(model.preset / _WEIGHTS, _WEIGHTS)
    parts = {"encoder": "encoder.onnx", "step": "step.onnx", "follow": FOLLOW}
    if (own / ATTENTION).exists():
        parts["attention"] = ATTENTION
    # Each is checked with its weights beside it.
    shutil.copyfile(model.preset / _WEIGHTS, own / _WEIGHTS)
    for program in parts.values():
        stored.use_in(own / program)
        check_program(own / program)
    (own / "checksums.json").unlink()
    write_json(own / "translator.json", description)
    parts["description"] = "translator.json"
    records: dict[str, Any] = {part: _deflated(own / file, f"{place}/{file}") for part, file in parts.items()}
    if model.address is not None:
        (own / _WEIGHTS).unlink()
    address = place if model.address is None else model.address.rstrip("/")
    records["weights"] = _record(model.preset / _WEIGHTS, f"{address}/{_WEIGHTS}")
    for side, known in description["tokenizers"].items():
        for kind in ("model", "truecaser", "vocabulary"):
            if kind not in known:
                continue
            record = _record(own / known[kind], f"{place}/{known[kind]}")
            if record["sha256"] == records.get(f"source_{kind}", {}).get("sha256"):
                # Both sides have the same one.
                (own / known[kind]).unlink()
            else:
                records[f"{side}_{kind}"] = record
    system = model.translator.description(name)
    kept = {place: system.places[place] for place in description["follow"]["places"]}
    lost = [PLACES[place] for place, layers in system.places.items() if layers and place not in kept]
    if lost:
        _LOG.warning("%s: the page will not show its %s, of which a step has no scores", shown(name), ", ".join(lost))
    record = system_record(dataclasses.replace(system, places=kept))
    return {"name": name, "languages": model.languages, "files": records, "system": record}


def _deflated(path: Path, address: str) -> dict[str, Any]:
    """Replace a file by its deflated form; return what the page has to know of it."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    short = path.with_name(f"{path.name}{_DEFLATED}")
    short.write_bytes(stream.compress(path.read_bytes()) + stream.flush())
    path.unlink()
    return _record(short, f"{address}{_DEFLATED}")


def _record(path: Path, address: str) -> dict[str, Any]:
    """What the page has to know of a file, to find it and to check it."""
    return {"path": address, "size": path.stat().st_size, "sha256": sha256(path)}
