"""Train the published presets, and create their folders, cards and registry from the runs.

  python presets/make.py train --corpus tatoeba --runs runs/presets
  python presets/make.py build --corpus tatoeba --runs runs/presets --links word-alignment-de-en

`train` trains one preset after the other and resumes interrupted runs. `build` stores the best round of each run in
int8, measures the stored model, and writes `presets/NAME` and its entry in `keras_attn_zoo/models/presets.json`.
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

HERE = Path(__file__).parent
# What every card shows, written for it.
SENTENCE = "Wenn es morgen nicht regnet, gehen wir mit den Kindern in den Wald."
SENTENCE_EN = "If it does not rain tomorrow, we will go to the woods with the children."
# The longest sentences that are aligned, in subwords: learned matrices of weights reach no further.
LONGEST = 75


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

    def command(self, corpus, run):
        """The command line that trains it, as a list."""
        files = [
            word for split in ("train", "valid", "test") for word in (f"--{split}", str(corpus / f"{split}.tsv.gz"))
        ]
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        return [
            *("attn-zoo", "train", "--system", self.system, "--run", str(run), *files),
            *(["--reverse"] if self.reversed else []),
            *("--precision", "auto", "--set", *settings),
        ]


def recipes():
    """Return the presets of `presets.toml` by name, and the facts of the corpus."""
    from keras_attn_zoo.experiments.named_systems import SYSTEMS

    table = tomllib.loads((HERE / "presets.toml").read_text("utf-8"))
    found = {}
    for name, facts in table["presets"].items():
        body = SYSTEMS[facts["system"]].body
        settings = {**table["settings"]["all"], **table["settings"][body], **facts.get("settings", {})}
        source, target = name.split("_")[-2:]
        found[name] = Recipe(name, facts["system"], facts["about"], settings, source, target)
    return found, table["corpus"]


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


def build(options, chosen, corpus):
    """Make the folder and the entry of each preset from its run."""
    for recipe in chosen:
        run = options.runs / recipe.name
        if not (run / "scores.json").exists():
            print(f"{recipe.name}: not trained to the end")
            continue
        print(f"{recipe.name}: {build_one(recipe, run, options, corpus)}", flush=True)


def build_one(recipe, run, options, corpus):
    """Store, measure and describe one preset; return its scores."""
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.files import atomic_path, read_json, write_json, write_text

    with atomic_path(HERE / recipe.name) as folder:
        load_translator(run).save_to_preset(folder, storage="int8")
        facts = measure(folder, recipe, run, options)
        draw(folder, recipe, run)
        write_text(folder / "README.md", card(recipe, facts, corpus, folder))
    from keras_attn_zoo.models.preset_registry import REGISTRY

    registry = read_json(REGISTRY)
    entry = {
        "system": recipe.system,
        "body": facts.pop("body"),
        "source": recipe.source,
        "target": recipe.target,
        "description": recipe.about,
        "license": corpus["license"],
        **facts,
        "files": records(HERE / recipe.name),
    }
    presets = {**registry["presets"], recipe.name: entry}
    order = [name for name in recipes()[0] if name in presets]
    write_json(REGISTRY, {"presets": {name: presets[name] for name in order}})
    return json.dumps(facts["scores"])


def records(folder):
    """Size and SHA-256 of the files that a preset is loaded from."""
    from keras_attn_zoo.checksums import CHECKSUMS, read_checksums, sha256

    names = [CHECKSUMS, *read_checksums(folder / CHECKSUMS)]
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
    from keras_attn_zoo.files import read_json

    search = RunFolder(run).system().search
    translator = load_translator(folder, beams=search.beams, length_penalty=search.length_penalty)
    pairs = list(TSVFile(options.corpus / "test.tsv.gz", int(recipe.reversed), int(not recipe.reversed)))
    sources, references = map(list, zip(*pairs, strict=True))
    # Once for the compilation, once for the clock.
    translator.translate(sources)
    began = time.perf_counter()
    hypotheses = [best[0].text for best in translator.translate(sources)]
    seconds = time.perf_counter() - began
    text = score_text(hypotheses, references).as_dict()["metrics"]
    trained = read_json(run / "scores.json")["test"]
    summary = training_summary(RunFolder(run))
    aer, count = align(translator, recipe, options)
    return {
        "body": type(translator.backbone).__name__,
        "parameters": translator.count_params(),
        "scores": {
            **{name: round(metric["score"], 2) for name, metric in text.items()},
            "perplexity": round(corpus_likelihood(translator.score(sources, references))["perplexity"], 3),
            "aer": None if aer is None else round(100 * aer, 1),
        },
        "signatures": {name: metric["signature"] for name, metric in text.items()},
        "search": {"beams": search.beams, "length_penalty": search.length_penalty},
        "sentences_per_second": round(len(sources) / seconds, 1),
        "backend": keras.config.backend(),
        "unquantized": {name: round(metric["score"], 2) for name, metric in trained["text"]["metrics"].items()},
        "training": {
            "steps": summary["steps"],
            "epochs": summary["rounds"],
            "hours": round(summary["seconds"] / 3600, 2),
        },
        "aligned_sentences": count,
    }


def align(translator, recipe, options):
    """Return AER on the gold links, and the number of sentences that are short enough; None and 0 without links."""
    if options.links is None:
        return None, 0
    from keras_attn_zoo.evaluation.alignments import read_alignments
    from keras_attn_zoo.experiments.corpora import read_bitext
    from keras_attn_zoo.experiments.word_alignment import align_by_layer, as_sentence

    pairs = read_bitext(options.links / "test.de-en", reverse=not recipe.reversed)
    gold = read_alignments(
        options.links / "gold.talp",
        index_base=1,
        reverse=not recipe.reversed,
        lengths=[(len(source), len(target)) for source, target in pairs],
    )
    preprocessor = translator.preprocessor
    longest = max(LONGEST, preprocessor.encoder_sequence_length)
    if translator.backbone.longest_sentence is not None:
        longest = min(longest, translator.backbone.longest_sentence)
    translator.make_room(longest)
    sides = zip(*((as_sentence(source), as_sentence(target)) for source, target in pairs), strict=True)
    lengths = [
        [len(tokenizer(text)) + 2 for text in side]
        for tokenizer, side in zip(
            (preprocessor.source_tokenizer, preprocessor.tokenizer), map(list, sides), strict=True
        )
    ]
    fits = [i for i, both in enumerate(zip(*lengths, strict=True)) if max(both) <= LONGEST]
    found = align_by_layer(translator, [pairs[i] for i in fits], [gold[i] for i in fits])
    return min(scores.aer for layer, (_, scores) in found.items() if not isinstance(layer, str)), len(fits)


def draw(folder, recipe, run):
    """Draw the attention of the sentence of all cards, and the curve of the training."""
    from keras_attn_zoo.analysis.pictures import plot_attention, plot_curves
    from keras_attn_zoo.experiments.curves import curves
    from keras_attn_zoo.experiments.loading import load_translator
    from keras_attn_zoo.experiments.word_alignment import sentence_picture

    sentence = SENTENCE if recipe.reversed else SENTENCE_EN
    matrix, source_words, target_words = sentence_picture(load_translator(folder), sentence)
    plot_attention(matrix, source_words, target_words, folder / "attention.png")
    (curve,) = curves([run]).values()
    plot_curves({recipe.name: curve}, folder / "curve.png", ylabel="validation loss")


def card(recipe, facts, corpus, folder):
    """Return the text of a preset's README.md."""
    search, scores, size = (
        facts["search"],
        facts["scores"],
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
    )
    names = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
    command = shlex.join(recipe.command(Path("tatoeba"), Path("runs") / recipe.name))
    lines = [f"- {names[name]} {scores[name]:.1f} ({signature})" for name, signature in facts["signatures"].items()]
    before = ", ".join(f"{names[name]} {value:.1f}" for name, value in facts["unquantized"].items())
    aer = (
        ""
        if scores["aer"] is None
        else f"\nIts best layer aligns {facts['aligned_sentences']} sentences of Europarl, which are longer than the "
        f"training text and of a different kind, with an AER of {scores['aer']:.1f}.\n"
    )
    return f"""---
library_name: keras-hub
pipeline_tag: translation
language: [{recipe.source}, {recipe.target}]
license: cc-by-2.0
tags: [keras, translation, attention]
---

# {recipe.name}

{recipe.about} It translates short everyday sentences from {LANGUAGES[recipe.source]} to {LANGUAGES[recipe.target]}.

```python
import keras_attn_zoo as kaz

translator = kaz.Translator.from_preset("{recipe.name}")
translator.generate(["{SENTENCE if recipe.reversed else SENTENCE_EN}"])
```

![attention](attention.png)

## Scores

On the 2,000 sentences of the test set, with {search["beams"]} beams and length penalty {search["length_penalty"]}:

{chr(10).join(lines)}
- perplexity {scores["perplexity"]:.2f} per subword

These are the scores of the file in this folder, in int8. Before storage, the same weights had {before}.
{aer}
It has {facts["parameters"] / 1e6:.1f} million parameters ({size / 1e6:.1f} MB) and translates
{facts["sentences_per_second"]:.0f} sentences per second on two CPU cores, with the {facts["backend"]} backend.

## Training

{corpus["title"]}: {corpus["sentences"]}. {facts["training"]["steps"]:,} steps, {facts["training"]["epochs"]} epochs,
{facts["training"]["hours"]:.1f} hours on one CPU core; the best round by validation loss.

```
{command}
```

![validation loss](curve.png)

## Limits

The training text is small and simple: the model knows a few thousand everyday words. It translates long or formal
sentences badly, and repeats what the corpus says about people. Its purpose is to look at attention.

## License and attribution

The weights are derived from sentences of [Tatoeba]({corpus["source"]}), {corpus["license"]}, by its
contributors, and are shared under the same terms: credit Tatoeba and its contributors, and keras-attn-zoo.
"""


LANGUAGES = {"de": "German", "en": "English"}


def main():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("train", "build"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="presets; by default all")
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder of train, valid and test.tsv.gz, English first"
    )
    parser.add_argument("--runs", type=Path, required=True, help="folder of the run folders")
    parser.add_argument("--links", type=Path, help="folder of test.de-en and gold.talp, for AER")
    options = parser.parse_intermixed_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    found, corpus = recipes()
    unknown = [name for name in options.names if name not in found]
    if unknown:
        parser.error(f"there is no preset {unknown[0]}: choose from {', '.join(found)}")
    chosen = [found[name] for name in options.names or found]
    if options.action == "train":
        train(options, chosen)
    else:
        build(options, chosen, corpus)


if __name__ == "__main__":
    main()
