"""Command lines: what is refused, and the help."""

import pytest

from keras_attn_zoo import cli
from keras_attn_zoo.cli.recipe import run_recipe
from keras_attn_zoo.studies.comparison import Recipe


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["translate", "no/where", "hallo"], ["no/where", "check the path"]),
        (["train", "--system", "bahdanu", "--embedded", "--run", "r"], ["'bahdanu'", "did you mean bahdanau?"]),
        (["train", "--system", "uniform", "--run", "r"], ["--train", "--embedded"]),
        (["train", "--system", "uniform", "--embedded", "--run", "r", "--set", "epoch=1"], ["'epoch'", "epochs"]),
        (["train", "--system", "uniform", "--train", "a", "b", "c", "--run", "r"], ["received 3 files"]),
        (["train", "--system", "uniform", "--train", "no.de", "no.en", "--run", "r"], ["no.de"]),
        (["explore", "nowhere", "--backend", "theano", "x"], ["'theano'", "jax, tensorflow, torch"]),
        (["evaluate"], ["--hypotheses"]),
        (["align", "m", "--source", "x"], ["--bitext"]),
        (["translate", "transformer_tatoeba_de_em", "x"], ["did you mean transformer_tatoeba_de_en?"]),
    ],
)
def test_bad_input_is_one_line_with_status_2_and_writes_nothing(attn_zoo, tmp_path, monkeypatch, arguments, texts):
    monkeypatch.chdir(tmp_path)
    status, output, error = attn_zoo(*arguments)
    assert (status, output) == (2, "")
    last = error.splitlines()[-1]
    assert last.startswith("attn-zoo: error: ") and all(text in last for text in texts)
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_options_are_written_out_and_given_once(attn_zoo, capsys):
    for arguments, text in (
        (("translate", "m", "--beam", 2), "unknown option --beam: did you mean --beams?"),
        # Not that --systems is missing.
        (("compare", "--system", "uniform", "--out", "o"), "unknown option --system: did you mean --systems?"),
        (("train", "--top-k", 3), "unknown option --top-k: top_k is a setting, see --set top_k=VALUE"),
        (("evaluate", "m", "--patience", 3), "unrecognized arguments: --patience 3"),
        (("translate", "m", "--beams", 2, "--beams=3"), "--beams was given 2 times"),
        (("train", "--train", "a", "--embedded", "--train", "b"), "--train was given 2 times"),
        (("translate", "m", "-v", "Ja."), "(see attn-zoo translate --help)"),
        (("translate", "m", "-x"), "put -- before arguments that begin with a dash"),
        (("evaluate", "a\nb", "--nix"), "unrecognized arguments: --nix"),
    ):
        with pytest.raises(SystemExit) as stopped:
            attn_zoo(*arguments)
        error = capsys.readouterr().err
        assert stopped.value.code == 2 and text in error and error.count("\n") == 1


def test_options_that_would_mean_nothing_are_refused(refused, trained, tmp_path):
    picture = tmp_path / "p.png"
    train = ("train", "--system", "uniform", "--run", tmp_path / "r")
    text_alone = ("evaluate", "--hypotheses", "a", "--references", "a")
    machine = ("--precision", "bfloat16", "--devices", 1)
    for arguments, text in (
        ((*text_alone, "--baseline", trained), "nothing is translated: leave out --baseline"),
        ((*text_alone, "--stored", "--name", "x", "--reverse"), "leave out --reverse and --name and --stored"),
        ((*text_alone, "--beams", 1, "--max-tokens", 70, "--top-k", 2), "--beams and --max-tokens and --top-k"),
        ((*text_alone, *machine), "leave out --precision and --devices"),
        (("evaluate", trained, "--stored", *machine), "leave out --precision and --devices"),
        (("evaluate", trained, "--stored", "--test", "a", "b", "--beams", 2), "leave out --beams and --test"),
        (("evaluate", trained, "--reverse"), "the text is the run's own: leave out --reverse"),
        ((*train, "--embedded", "--valid", "a"), "provides the text: leave out --valid"),
        ((*train, "--valid", "a", "--test", "a", "--train", "a", "--split-seed", 3), "leave out --split-seed"),
        (("align", trained, "--bitext", "a", "--index-base", 1), "there is no --gold: leave out --index-base"),
        (("translate", trained, "--input", ""), "there is no file ''"),
        (("translate", trained, "--n-best", 2, "--scores", "rot haus"), "--n-best already writes the scores"),
        (
            ("plot", "attention", trained, "rot haus", "--target", "house", "--beams", 3, "--output", picture),
            "there is no search",
        ),
    ):
        refused(text, *arguments)
    assert not picture.exists()


def parsers():
    """Every command, and one recipe for all."""
    commands = [["demo"], ["systems"], ["train"], ["translate"], ["evaluate"], ["align"]]
    plots = [["plot", kind] for kind in ("attention", "curves", "top-k")]
    for words in ([], *commands, *plots):
        yield f"attn-zoo {' '.join(words)}".strip(), lambda words=words: cli.main([*words, "--help"])
    recipe = Recipe(title="title", entries={}, default=())
    text = "A first line that is rather long, and goes on for some more words than a narrow terminal has.\n\nRead so:\n"
    text += "- An item of a list, which has so many words that it\n  goes on in another line; they are filled.\n"
    yield "", lambda: run_recipe(recipe, text, ["--help"])


def test_help_fits_the_terminal_and_shows_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, show in parsers():
        with pytest.raises(SystemExit) as stopped:
            show()
        assert stopped.value.code == 0
        text = capsys.readouterr().out
        # Commands are left as they can be copied.
        assert all(len(line) < 80 for line in text.splitlines() if not line.lstrip().startswith(("attn-zoo", "--")))
        if name.count(" "):
            assert f"\n  {name}" in text.split("examples:")[1]
    assert "- An item of a list, which has so many words that it goes on in another line;\n  they are" in text
    assert "\n  Data:\n    vocabulary_size=8000\n        vocabulary size; None" in text
