"""Train the published presets, and create their folders, cards and registry from the runs.

  python presets/make.py train --corpus tatoeba --runs runs/presets
  python presets/make.py build --corpus tatoeba --runs runs/presets --links word-alignment-de-en
  python presets/make.py page

`train` trains one preset after the other and resumes interrupted runs. `build` stores the best round of each run in
int8, measures the stored model, writes `presets/NAME` and its entry in `keras_attn_zoo/models/presets.json`, and then
the page. `page` writes the table and the pictures of `docs/presets.md` from the registry.
"""

import argparse
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from cards import PAGE, card, with_presets

HERE = Path(__file__).parent
# What every card shows, written for it.
SENTENCES = {
    "de": "Gestern habe ich im Park einen alten Freund getroffen.",
    "en": "I met an old friend in the park yesterday.",
}
# The longest sentences that are aligned, in subwords: learned matrices of weights reach no further.
LONGEST = 75
# Colours of a picture in a palette, which takes a third of the bytes.
COLOURS = 256


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
        from keras_attn_zoo.experiments.named_systems import SYSTEMS
        from keras_attn_zoo.experiments.system import parse_settings

        return SYSTEMS[self.system].override(**parse_settings(self.assignments))


def recipes(file=HERE / "presets.toml"):
    """Return the presets of `presets.toml` by name, and its other tables: facts of the corpus and the training."""
    from keras_attn_zoo.experiments.named_systems import SYSTEMS

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


def build_one(recipe, run, options, text):
    """Store, measure and describe one preset; return its scores."""
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.run_folder import RunFolder
    from keras_attn_zoo.files import atomic_path, read_json, write_json, write_text
    from keras_attn_zoo.models.preset_registry import CARD, REGISTRY

    check_settings(recipe, run)
    with atomic_path(HERE / recipe.name) as folder:
        load_translator(run).save_to_preset(folder, storage="int8")
        facts = {
            "system": recipe.system,
            "source": recipe.source,
            "target": recipe.target,
            "description": recipe.about,
            "papers": recipe.trained().source,
            "license": text["corpus"]["license"],
            "sentence": SENTENCES[recipe.source],
            **measure(folder, recipe, run, options),
            "files": records(folder, loaded_from(folder)),
        }
        draw(folder, facts, run)
        # What "auto" stood for on the machine that trained it.
        precision = RunFolder(run).system().precision
        command = recipe.command(Path("tatoeba"), Path("runs") / recipe.name, precision)
        write_text(folder / CARD, card(recipe.name, facts, command, text))
        # After it is written: it says how large the others are. It goes wherever they go, for license and credit.
        facts["files"] |= records(folder, [CARD])
    presets = {**read_json(REGISTRY)["presets"], recipe.name: facts}
    order = [name for name in text["presets"] if name in presets]
    write_json(REGISTRY, {"presets": {name: presets[name] for name in order}})
    return json.dumps(facts["scores"])


def check_settings(recipe, run):
    """Raise if a run was trained with other settings than `presets.toml` has, which its card would then show."""
    from keras_attn_zoo.errors import UserError
    from keras_attn_zoo.experiments.run_folder import RunFolder

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
    from keras_attn_zoo.checksums import CHECKSUMS, read_checksums

    return [CHECKSUMS, *read_checksums(folder / CHECKSUMS)]


def records(folder, names):
    """Size and SHA-256 of files of a preset."""
    from keras_attn_zoo.checksums import sha256

    return {name: {"size": (folder / name).stat().st_size, "sha256": sha256(folder / name)} for name in names}


def measure(folder, recipe, run, options):
    """Translate and score with what was stored; return parameters, scores, signatures and speed."""
    import keras

    from keras_attn_zoo.data.text_files import TSVFile
    from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
    from keras_attn_zoo.evaluation.text_scores import score_text
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.run_folder import RunFolder
    from keras_attn_zoo.experiments.scoring import training_summary

    run = RunFolder(run)
    search = run.system().search
    translator = load_translator(folder, beams=search.beams, length_penalty=search.length_penalty)
    pairs = list(TSVFile(options.corpus / "test.tsv.gz", int(recipe.reversed), int(not recipe.reversed)))
    sources, references = map(list, zip(*pairs, strict=True))
    # Once for the compilation, once for the clock.
    translator.translate(sources)
    began = time.perf_counter()
    hypotheses = [best[0].text for best in translator.translate(sources)]
    seconds = time.perf_counter() - began
    text = score_text(hypotheses, references).as_dict()["metrics"]
    unquantized = run.read_scores()["test"]["text"]["metrics"]
    summary = training_summary(run)
    aer, alignment = align(translator, recipe, options)
    return {
        "body": type(translator.backbone).__name__,
        "parameters": translator.count_params(),
        "scores": {
            **{name: round(metric["score"], 2) for name, metric in text.items()},
            "perplexity": round(corpus_likelihood(translator.score(sources, references))["perplexity"], 3),
            "aer": aer,
        },
        "signatures": {name: metric["signature"] for name, metric in text.items()},
        "search": {"beams": search.beams, "length_penalty": search.length_penalty},
        "sentences_per_second": round(len(sources) / seconds, 1),
        "backend": keras.config.backend(),
        "cores": len(os.sched_getaffinity(0)),
        "unquantized": {name: round(metric["score"], 2) for name, metric in unquantized.items()},
        "training": {
            "steps": summary["steps"],
            "epochs": summary["rounds"],
            "hours": round(summary["seconds"] / 3600, 2),
            "test": len(sources),
        },
        "alignment": alignment,
    }


def align(translator, recipe, options):
    """Return AER on the gold links, and on how many sentences and by which attention; None twice without links."""
    if options.links is None:
        return None, None
    from keras_attn_zoo.data.words import as_sentence
    from keras_attn_zoo.experiments.word_alignment import align_by_layer

    pairs, gold = read_links(options.links, recipe)
    preprocessor = translator.preprocessor
    longest = min(LONGEST, translator.backbone.longest_sentence or LONGEST)
    translator.make_room(longest)
    sides = zip(*((as_sentence(source), as_sentence(target)) for source, target in pairs), strict=True)
    lengths = [
        [len(tokenizer(text)) + 2 for text in side]
        for tokenizer, side in zip(
            (preprocessor.source_tokenizer, preprocessor.tokenizer), map(list, sides), strict=True
        )
    ]
    fits = [i for i, both in enumerate(zip(*lengths, strict=True)) if max(both) <= longest]
    found = align_by_layer(translator, [pairs[i] for i in fits], [gold[i] for i in fits])
    best = min(found, key=lambda layer: found[layer][1].aer)
    by = name_of(best, len(translator.backbone.cross_attention_heads))
    facts = {"sentences": len(fits), "of": len(pairs), "longest": longest, "layer": best, "by": by}
    return round(100 * found[best][1].aer, 1), facts


def read_links(links, recipe):
    """Return the tokenised pairs with gold links in the direction of a preset, and their links."""
    from keras_attn_zoo.evaluation.alignments import read_alignments
    from keras_attn_zoo.experiments.corpora import read_bitext

    pairs = read_bitext(links / "test.de-en", reverse=not recipe.reversed)
    lengths = [(len(source), len(target)) for source, target in pairs]
    gold = read_alignments(links / "gold.talp", index_base=1, reverse=not recipe.reversed, lengths=lengths)
    return pairs, gold


def name_of(layer, count):
    """What a card calls the attention that `align_by_layer` names; None for the only layer of a model."""
    if isinstance(layer, int):
        return f"layer {layer + 1} of {count}" if count > 1 else None
    return f"the {layer} of its latent alignment" if layer in ("prior", "posterior") else "the mean of its layers"


def draw(folder, facts, run):
    """Draw the attention of the sentence of all cards, and the curve of the training."""
    from keras_attn_zoo.analysis.pictures import plot_attention, plot_curves
    from keras_attn_zoo.experiments.curves import curves
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.word_alignment import sentence_picture

    translator = load_translator(folder, beams=facts["search"]["beams"])
    layers = layers_of(facts["alignment"], translator.backbone)
    matrix, source_words, target_words = sentence_picture(translator, facts["sentence"], layers=layers)
    plot_attention(matrix, source_words, target_words, folder / "attention.png")
    found = {
        name: next(iter(curves([run], key).values()))
        for name, key in (("training", "perplexity"), ("validation", "val_perplexity"))
    }
    plot_curves(found, folder / "curve.png", ylabel="perplexity", log_scale=True)
    for picture in ("attention.png", "curve.png"):
        shrink(folder / picture)


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


def write_page():
    """Write the parts of docs/presets.md that are made from the registry."""
    from keras_attn_zoo.files import read_json, write_text
    from keras_attn_zoo.models.preset_registry import REGISTRY

    write_text(PAGE, with_presets(PAGE.read_text("utf-8"), read_json(REGISTRY)["presets"]))


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("train", "build", "page"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="presets; by default all")
    parser.add_argument("--corpus", type=Path, help="folder of train, valid and test.tsv.gz, English first")
    parser.add_argument("--runs", type=Path, help="folder of the run folders")
    parser.add_argument("--links", type=Path, help="folder of test.de-en and gold.talp, for AER")
    options = parser.parse_intermixed_args()
    if options.action == "page":
        write_page()
        return
    if options.corpus is None or options.runs is None:
        parser.error(f"{options.action} needs --corpus and --runs")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from keras_attn_zoo.backends import choose_backend

    choose_backend(None)
    found, text = recipes()
    unknown = [name for name in options.names if name not in found]
    if unknown:
        parser.error(f"there is no preset {unknown[0]}: choose from {', '.join(found)}")
    chosen = [found[name] for name in options.names or found]
    if options.action == "train":
        train(options, chosen)
    else:
        build(options, chosen, text)


if __name__ == "__main__":
    main()
