"""Train the published presets, and create their folders, cards and registry from the runs.

  python presets/make.py train --corpus tatoeba --runs runs/presets
  python presets/make.py build --corpus tatoeba --runs runs/presets --links word-alignment-de-en
  python presets/make.py measure --corpus tatoeba --links word-alignment-de-en
  python presets/make.py policies transformer_tatoeba_de_en bahdanau_tatoeba_de_en --corpus tatoeba --backend torch
  python presets/make.py page

`train` trains one preset after the other and resumes interrupted runs. `build` stores the best round of each run in
int8, measures the stored model, writes `presets/NAME` and its entry in `keras_attn_zoo/presets/presets.json`, and then
the page. `measure` measures presets that are there again, on one machine, without their runs. `policies` prints how
many translations differ in other dtype policies. `page` writes the cards, and the table and the pictures of
`docs/reference/presets.md`, from the registry.
"""

import argparse
import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from cards import PAGE, card, with_presets
from measuring import POLICIES, history, measure, translated_otherwise

HERE = Path(__file__).parent
# What every card shows, written for it.
SENTENCES = {
    "de": "Gestern habe ich im Park einen alten Freund getroffen.",
    "en": "I met an old friend in the park yesterday.",
}
# Test sentences whose translations are compared between dtype policies.
COMPARED = 200
# Colours of a picture in a palette, which takes a third of the bytes.
COLOURS = 128


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A preset as `presets.toml` has it.

    Attributes:
        name: of the preset.
        system: the named system.
        about: what it is, in a sentence.
        settings: what the system is trained with, beside its own.
        source, target: the languages.
    """

    name: str
    system: str
    about: str
    settings: dict
    source: str
    target: str

    @property
    def reversed(self):
        """Whether the corpus, English first, has the source second."""
        return self.source == "de"

    def command(self, corpus, run, precision="auto"):
        """The command line that trains it, as a list."""
        files = [
            word for split in ("train", "valid", "test") for word in (f"--{split}", str(corpus / f"{split}.tsv.gz"))
        ]
        return [
            *("attn-zoo", "train", "--system", self.system, "--run", str(run), *files),
            *(["--reverse"] if self.reversed else []),
            *("--precision", precision, "--set", *self.assignments),
        ]

    @property
    def assignments(self):
        """The settings as `--set` takes them."""
        return [f"{key}={value}" for key, value in self.settings.items()]

    def trained(self):
        """The system that `command` trains."""
        from keras_attn_zoo.runs.named_systems import SYSTEMS
        from keras_attn_zoo.runs.system import parse_settings

        return SYSTEMS[self.system].override(**parse_settings(self.assignments))


def recipes(file=HERE / "presets.toml"):
    """Return the presets of `presets.toml` by name, and its other tables: facts of the corpus and the training."""
    from keras_attn_zoo.runs.named_systems import SYSTEMS

    text = tomllib.loads(file.read_text("utf-8"))
    found = {}
    for name, facts in text["presets"].items():
        body = SYSTEMS[facts["system"]].body
        settings = {**text["settings"]["all"], **text["settings"][body], **facts.get("settings", {})}
        source, target = name.split("_")[-2:]
        found[name] = Recipe(name, facts["system"], facts["about"], settings, source, target)
    return found, text


def train(options, chosen):
    """Train presets one after the other; those that are done are left alone."""
    for recipe in chosen:
        run = options.runs / recipe.name
        command = recipe.command(options.corpus, run)
        if (run / "config.json").exists():
            command.append("--resume")
        print(shlex.join(command), flush=True)
        # A resumed run takes its settings from its folder, and finds that they are these.
        subprocess.run([sys.executable, "-m", "keras_attn_zoo", *command[1:]], check=True)


def build(options, chosen, text):
    """Make the folder and the entry of each preset from its run, and the page."""
    for recipe in chosen:
        run = options.runs / recipe.name
        if not (run / "scores.json").exists():
            print(f"{recipe.name}: not trained to the end")
            continue
        print(f"{recipe.name}: {build_one(recipe, run, options, text)}", flush=True)
    write_page()


def measure_all(options, chosen, text):
    """Measure presets that stand there again, and write the page."""
    for recipe in chosen:
        print(f"{recipe.name}: {measure_again(recipe, options, text)}", flush=True)
    write_page()


def build_one(recipe, run, options, text):
    """Store, measure and describe one preset; return its scores."""
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.support.files import atomic_path

    check_settings(recipe, run)
    with atomic_path(HERE / recipe.name) as folder:
        load_translator(run).save_to_preset(folder, storage="int8")
        draw_curve(folder, run)
        facts = {
            "system": recipe.system,
            "source": recipe.source,
            "target": recipe.target,
            "description": recipe.about,
            "papers": recipe.trained().source,
            "license": text["corpus"]["license"],
            "sentence": SENTENCES[recipe.source],
            **history(run),
        }
        # What "auto" stood for on the machine that trained it.
        facts = describe(folder, recipe, facts, RunFolder(run).system().precision, options, text)
    return register(recipe.name, facts, text)


def measure_again(recipe, options, text):
    """Measure a preset that stands there; return its scores."""
    from keras_attn_zoo.presets.preset_registry import REGISTRY
    from keras_attn_zoo.support.files import atomic_path, read_json

    facts = read_json(REGISTRY)["presets"][recipe.name]
    with atomic_path(HERE / recipe.name) as folder:
        shutil.copytree(HERE / recipe.name, folder)
        facts = describe(folder, recipe, facts, precision_of(recipe.name), options, text)
    return register(recipe.name, facts, text)


def precision_of(name):
    """What a preset was trained in, by its card."""
    return re.search(r"--precision (\w+)", (HERE / name / "README.md").read_text("utf-8"))[1]


def describe(folder, recipe, facts, precision, options, text):
    """Measure the preset in a folder, draw its attention and write its card; return what is known of it."""
    facts = {
        **facts,
        **measure(folder, recipe, options),
        "files": records(folder, loaded_from(folder)),
    }
    draw_attention(folder, facts)
    return with_card(folder, recipe, facts, precision, text)


def with_card(folder, recipe, facts, precision, text):
    """Write the card of a preset; return what is known of it, with the records of the card and its pictures."""
    from keras_attn_zoo.presets.preset_registry import CARD, PICTURES
    from keras_attn_zoo.support.files import write_text

    command = recipe.command(Path("tatoeba"), Path("runs") / recipe.name, precision)
    write_text(folder / CARD, card(recipe.name, facts, command, text))
    # After it is written: it says how large the others are. It goes wherever they go, for license and credit.
    return {**facts, "files": {**facts["files"], **records(folder, [CARD, *PICTURES])}}


def register(name, facts, text):
    """Enter a preset in the registry; return its scores as text."""
    from keras_attn_zoo.presets.preset_registry import REGISTRY
    from keras_attn_zoo.support.files import read_json, write_json

    presets = {**read_json(REGISTRY)["presets"], name: facts}
    write_json(REGISTRY, {"presets": {one: presets[one] for one in text["presets"] if one in presets}})
    return json.dumps(facts["scores"])


def check_settings(recipe, run):
    """Raise if a run was trained with other settings than `presets.toml` has, which its card would then show."""
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.support.errors import UserError

    wanted, found = (dataclasses.asdict(system) for system in (recipe.trained(), RunFolder(run).system()))
    parts = ("backbone", "data", "training")
    other = [key for part in parts for key in {**wanted[part], **found[part]} if _differ(wanted, found, part, key)]
    if other:
        raise UserError(
            f"{recipe.name}: the run was trained with another {', '.join(other)} than presets.toml has: change either."
        )


def _differ(wanted, found, part, key):
    return wanted[part].get(key) != found[part].get(key)


def loaded_from(folder):
    """Names of the files that a preset is loaded from."""
    from keras_attn_zoo.support.checksums import CHECKSUMS, read_checksums

    return [CHECKSUMS, *read_checksums(folder / CHECKSUMS)]


def records(folder, names):
    """Size and SHA-256 of files of a preset."""
    from keras_attn_zoo.support.checksums import sha256

    return {name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names}


def draw_attention(folder, facts):
    """Draw the attention of the sentence of all cards."""
    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.word_alignment import sentence_picture
    from keras_attn_zoo.viewing.attention_pictures import plot_attention

    translator = load_translator(folder)
    layers = layers_of(facts["alignment"], translator.backbone)
    matrix, source_words, target_words = sentence_picture(translator, facts["sentence"], layers=layers)
    plot_attention(matrix, source_words, target_words, folder / "attention.png")
    shrink(folder / "attention.png")


def draw_curve(folder, run):
    """Draw the curve of the training."""
    from keras_attn_zoo.runs.curves import curves
    from keras_attn_zoo.viewing.attention_pictures import plot_curves

    found = {
        name: next(iter(curves([run], key).values()))
        for name, key in (("training", "perplexity"), ("validation", "val_perplexity"))
    }
    plot_curves(found, folder / "curve.png", ylabel="perplexity", log_scale=True)
    shrink(folder / "curve.png")


def layers_of(alignment, backbone):
    """The `layers` of `sentence_picture` for the attention that aligns best."""
    layer = None if alignment is None else alignment["layer"]
    if layer == "all":
        return list(range(len(backbone.cross_attention_heads)))
    return [layer] if isinstance(layer, int) else "posterior" if layer == "posterior" else None


def shrink(picture):
    """Store a picture with a palette."""
    from PIL import Image

    with Image.open(picture) as image:
        smaller = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    smaller.save(picture, optimize=True)


def write_cards(found, text):
    """Write the cards of all presets from the registry."""
    from keras_attn_zoo.presets.preset_registry import REGISTRY
    from keras_attn_zoo.support.files import read_json

    for name, facts in read_json(REGISTRY)["presets"].items():
        recipe = found[name]
        facts = {**facts, "description": recipe.about, "papers": recipe.trained().source}
        register(name, with_card(HERE / name, recipe, facts, precision_of(name), text), text)


def print_policies(options, chosen):
    """Print the table of the translations that differ in other dtype policies."""
    from keras_attn_zoo.studies.tabular import markdown_table

    found = {one.name: translated_otherwise(HERE / one.name, one, options, COMPARED) for one in chosen}
    headings = ["preset", *(f"`{policy}`" for policy in POLICIES)]
    print(markdown_table(headings, [[f"`{name}`", *map(str, counts.values())] for name, counts in found.items()]))


def write_page():
    """Write the parts of docs/reference/presets.md that are made from the registry."""
    from keras_attn_zoo.presets.preset_registry import REGISTRY
    from keras_attn_zoo.support.files import read_json, write_text

    write_text(PAGE, with_presets(PAGE.read_text("utf-8"), read_json(REGISTRY)["presets"]))


def main():
    """Parse the command line."""
    from keras_attn_zoo.support.backends import BACKENDS, choose_backend

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("train", "build", "measure", "policies", "page"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="presets; by default all")
    parser.add_argument("--corpus", type=Path, help="folder of train, valid and test.tsv.gz, English first")
    parser.add_argument("--runs", type=Path, help="folder of the run folders")
    parser.add_argument("--links", type=Path, help="folder of test.de-en and gold.talp, for AER")
    parser.add_argument("--backend", choices=BACKENDS, help="by default the fastest for the action")
    options = parser.parse_intermixed_args()
    if options.corpus is None and options.action != "page":
        parser.error(f"{options.action} needs --corpus")
    if options.runs is None and options.action in ("train", "build"):
        parser.error(f"{options.action} needs --runs")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    choose_backend(options.backend, "training" if options.action == "train" else "search")
    found, text = recipes()
    unknown = [name for name in options.names if name not in found]
    if unknown:
        parser.error(f"there is no preset {unknown[0]}: choose from {', '.join(found)}")
    chosen = [found[name] for name in options.names or found]
    if options.action == "page":
        write_cards(found, text)
        write_page()
    elif options.action == "policies":
        print_policies(options, chosen)
    elif options.action == "train":
        train(options, chosen)
    elif options.action == "measure":
        measure_all(options, [recipe for recipe in chosen if (HERE / recipe.name).exists()], text)
    else:
        build(options, chosen, text)


if __name__ == "__main__":
    main()
