"""The published presets: how they are made, what their cards and their page say, and that both fit the registry."""

import argparse
import gzip
import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from keras_attn_zoo.evaluation.text_scores import score_text
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.presets.preset_registry import CHECKOUT, check_published
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.runs.scoring import score_run
from keras_attn_zoo.runs.training import train_system
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import Translator
from tests.shared_files import of_another_backend
from tests.tiny_run import TINY, make_pairs

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "presets.md"
PUBLISHED = json.loads(preset_registry.REGISTRY.read_text("utf-8"))["presets"]
NAME = "tiny_de_en"
SYSTEM = TINY.override(epochs=6, validations_per_epoch=1, teacher_forcing=1.0)
# Short and long, known and unknown words, and none of German.
SENTENCES = [
    "Gestern habe ich im Park einen alten Freund getroffen.",
    "Wie heißt das Mädchen, das dort drüben steht?",
    "Ich weiß nicht, ob er morgen kommt, aber ich hoffe, dass er uns helfen kann, wenn wir ihn darum bitten.",
    "Der Quarzkristall schwingt.",
    "I met him yesterday.",
    "Tom!",
]
TEXT = tomllib.loads((ROOT / "presets" / "presets.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def make():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "presets")
        yield importlib.import_module("make")


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    """A run that translates some sentences, as that of `trained` does not."""
    folder = tmp_path_factory.mktemp("learned") / NAME
    train_system(SYSTEM, corpus, folder)
    score_run(folder, load_translator(folder), corpus.test)
    return folder


@pytest.fixture(scope="module")
def built(make, run, tmp_path_factory):
    """A preset made from the tiny run, its registry and its page, in a folder of their own."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "presets.json").write_text('{"presets": {}}')
    page = folder / "docs" / "reference" / "presets.md"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    pairs = make_pairs(6, 400)
    # English first, which the recipe turns round; words in reverse order, so the links cross.
    lines = "".join(f"{target}\t{source}\n" for source, target in pairs)
    (folder / "test.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "test.de-en").write_text("".join(f"{source} ||| {target}\n" for source, target in pairs), "utf-8")
    lengths = [len(source.split()) for source, _ in pairs]
    gold = [" ".join(f"{j + 1}-{n - j}" for j in range(n)) for n in lengths]
    (folder / "gold.talp").write_text("".join(f"{line}\n" for line in gold))

    class Tiny(make.Recipe):
        def trained(self):
            return SYSTEM

    recipe = Tiny(NAME, "bahdanau", "A tiny translator.", {"epochs": 2}, "de", "en")
    options = argparse.Namespace(runs=run.parent, corpus=folder, links=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "HERE", folder / "presets")
        patch.setattr(make, "PAGE", page)
        patch.setattr(make, "SENTENCES", {"de": translatable(run)})
        patch.setattr(preset_registry, "REGISTRY", folder / "presets.json")
        make.build(options, [recipe], {**TEXT, "presets": {NAME: {}}})
    return folder


def translatable(run):
    """A sentence that has a translation."""
    sources = [source for source, _ in make_pairs(96)]
    found = load_translator(run, beams=2).translate(sources)
    return next(source for source, [best] in zip(sources, found, strict=True) if best.text.strip())


@pytest.fixture
def facts(built):
    return json.loads((built / "presets.json").read_text("utf-8"))["presets"][NAME]


@pytest.mark.long
def test_a_preset_is_made_from_a_run(built, facts, run, monkeypatch):
    monkeypatch.setattr(preset_registry, "published", lambda: {NAME: facts})
    folder = built / "presets" / NAME
    check_published(NAME, folder)
    assert set(facts["files"]) == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert (facts["system"], facts["body"], facts["source"], facts["target"]) == ("bahdanau", "RNNBackbone", "de", "en")
    # Scored as it is stored, with the run's search.
    translator = load_translator(folder)
    pairs = make_pairs(6, 400)
    found = [best[0].text for best in translator.translate([source for source, _ in pairs])]
    expected = score_text(found, [target for _, target in pairs]).as_dict()["metrics"]
    for metric, score in expected.items():
        assert facts["scores"][metric] == round(score["score"], 2)
        assert facts["signatures"][metric] == score["signature"]
    assert facts["parameters"] == load_translator(run).count_params()
    assert facts["search"] == {"beams": 2, "length_penalty": SYSTEM.search.length_penalty}
    assert facts["training"]["test"] == facts["alignment"]["sentences"] == facts["alignment"]["of"] == 6
    assert facts["alignment"]["by"] is None


def test_error_rate_of_the_alignments(built, facts):
    """Against links found by hand: of each target word, the source word with the most attention."""
    translator = load_translator(built / "presets" / NAME)
    wrong = count = 0
    for source, target in make_pairs(6, 400):
        words = len(target.split())
        attention = translator.force(source, target).attention.mean(axis=0)[:words, :words]
        found = {(int(row.argmax()), i) for i, row in enumerate(attention)}
        gold = {(words - 1 - i, i) for i in range(words)}
        wrong += len(found ^ gold)
        count += len(found) + len(gold)
    assert facts["scores"]["aer"] == round(100 * wrong / count, 1)


def test_a_card_says_what_a_stranger_asks(make, built, facts):
    card = (built / "presets" / NAME / "README.md").read_text("utf-8")
    front, text = card.split("\n---\n", 1)
    assert "license: cc-by-2.0" in front and "language: [de, en]" in front
    wanted = [
        f"# {NAME}",
        "A tiny translator. It translates short everyday sentences from German to English.",
        'pip install "keras-attn-zoo[translate,jax]"',
        f'from_preset("{NAME}")',
        f'generate(["{facts["sentence"]}"])',
        *(f"{name} {facts['scores'][key]:.1f} (`{facts['signatures'][key]}`)" for key, name in make_metrics()),
        f"AER) of {facts['scores']['aer']:.1f}",
        f"{facts['sentences_per_second']:.0f} sentences per second",
        f"{facts['parameters'] / 1e6:.1f} million parameters",
        "attn-zoo train --system bahdanau",
        "--reverse",
        "--set epochs=2",
        "## Limits",
        "https://tatoeba.org",
        "CC BY 2.0 FR",
        TEXT["training"]["hardware"],
    ]
    flat = re.sub(r"\s*\\?\n\s*", " ", text)
    assert [one for one in wanted if one not in flat] == []
    for picture in re.findall(r"!\[\w+\]\((\S+)\)", text):
        assert (built / "presets" / NAME / picture).read_bytes().startswith(b"\x89PNG")
    assert text.count("![") == 2 and max(map(len, text.splitlines())) <= 120


def make_metrics():
    return (("bleu", "BLEU"), ("chrf", "chrF"), ("ter", "TER"))


def test_the_page_of_a_registry(make, built, facts):
    folder = built / "docs" / "reference"
    page = (folder / "presets.md").read_text("utf-8")
    scores = " | ".join(f"{facts['scores'][key]:.1f}" for key in ("bleu", "chrf", "ter", "aer"))
    assert f"| `{NAME}` | `bahdanau` | {scores} |" in page
    assert f"![attention of {NAME}](../../presets/{NAME}/attention.png)" in page and "no presets yet" not in page
    for link in re.findall(r"\]\((\.\./\.\./presets/[^)]+)\)", page):
        assert (folder / link).is_file()
    # Nothing else of the page was touched, and a registry without presets gives it back.
    assert make.with_presets(page, {}) == make.with_presets(PAGE.read_text("utf-8"), {})


def test_the_page_fits_the_registry(make):
    """`python presets/make.py page` writes it."""
    page = PAGE.read_text("utf-8")
    assert page == make.with_presets(page, PUBLISHED)


def test_the_cards_fit_the_registry(make):
    """`python presets/make.py page` writes them."""
    found, text = make.recipes()
    for name, facts in PUBLISHED.items():
        command = found[name].command(Path("tatoeba"), Path("runs") / name, make.precision_of(name))
        assert (CHECKOUT / name / "README.md").read_text("utf-8") == make.card(name, facts, command, text)
        assert facts["description"] == found[name].about


def save_translations(folder):
    found = {name: Translator.from_preset(name).generate(SENTENCES) for name in PUBLISHED}
    (Path(folder) / "translations.json").write_text(json.dumps(found))


@pytest.mark.slow
def test_published_presets_translate_alike_under_another_backend(tmp_path):
    folder = of_another_backend("tests.test_published_presets", "save_translations")
    save_translations(tmp_path)
    first, second = (json.loads((one / "translations.json").read_text()) for one in (folder, tmp_path))
    assert first == second and len(set(map(tuple, first.values()))) > 6


def test_what_is_published_stands_in_the_checkout():
    for name, facts in PUBLISHED.items():
        check_published(name, CHECKOUT / name)
        # What its card shows is downloaded with it, too.
        pictures = re.findall(r"!\[.*\]\((.+?)\)", (CHECKOUT / name / "README.md").read_text("utf-8"))
        assert len(pictures) == 2 and set(pictures) < set(facts["files"])
    sizes = [sum(record["size"] for record in facts["files"].values()) for facts in PUBLISHED.values()]
    assert max(sizes) <= 8_000_000 and sum(sizes) <= 80_000_000


def test_a_published_preset_is_searched_as_it_was_scored():
    for name, facts in PUBLISHED.items():
        config = json.loads((CHECKOUT / name / "task.json").read_text("utf-8"))["config"]
        assert config["search_settings"] == {**facts["search"], "search_top_k": None}


def test_every_recipe_can_be_trained(make):
    found, _ = make.recipes()
    assert len(found) == 12 and set(PUBLISHED) <= set(found)
    for name, recipe in found.items():
        system = recipe.trained()
        assert system.name == SYSTEMS[recipe.system].name and name.startswith(recipe.system.replace("-", "_"))
        # One budget, and one set of subwords, for all of a body.
        assert system.training.epochs == 12 and system.data == found["transformer_tatoeba_de_en"].trained().data


def test_a_run_with_other_settings_is_refused(make, run):
    found, _ = make.recipes()
    with pytest.raises(UserError, match=r"bahdanau_tatoeba_de_en: the run was trained with another .*epochs"):
        make.check_settings(found["bahdanau_tatoeba_de_en"], run)
