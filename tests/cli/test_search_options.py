"""`attn-zoo translate`: strategies, constraints, and what contradicts itself."""

import pytest

from keras_attn_zoo.runs.loading import load_translator
from tests.cli.conftest import SENTENCES


@pytest.mark.every_backend
@pytest.mark.slow_compiled
def test_strategies_are_those_of_python(attn_zoo, trained):
    from keras_attn_zoo.decoding import DiverseBeamSearch, Sampling

    def lines(*options):
        status, output, _ = attn_zoo("translate", trained, *options, *SENTENCES)
        assert status == 0
        return [line.split(" ||| ")[1] for line in output.splitlines()]

    translator = load_translator(trained, beams=4, length_penalty=0.5)
    sampler = Sampling(3, 2.0, top_k=4, top_p=0.9, seed=5)
    expected = translator.translate(SENTENCES, n_best=3, sampler=sampler)
    drawn = ("--temperature", 2, "--sample-top-k", 4, "--top-p", 0.9, "--seed", 5, "--n-best", 3)
    assert lines("--strategy", "sampling", *drawn) == [one.text for best in expected for one in best]
    sampler = DiverseBeamSearch(4, 0.5, groups=2, diversity=2.0, min_length=3)
    expected = translator.translate(SENTENCES, n_best=2, sampler=sampler)
    groups = ("--beams", 4, "--length-penalty", 0.5, "--groups", 2, "--diversity", 2, "--min-length", 3, "--n-best", 2)
    assert lines("--strategy", "diverse", *groups) == [one.text for best in expected for one in best]
    expected = translator.translate(SENTENCES, n_best=2, sampler=Sampling(16), mbr="chrf")
    chosen = lines("--strategy", "sampling", "--mbr", "chrf", "--n-best", 2)
    assert chosen == [one.text for best in expected for one in best]


def test_constraints_of_every_line(attn_zoo, refused, trained, tmp_path):
    source, prefix, required = (tmp_path / name for name in ("in", "prefix", "required"))
    # A window for each line; the second has no words.
    source.write_text(f"{SENTENCES[0]}\n\n{SENTENCES[1]}\n")
    prefix.write_text("dog\n\nblue cat\n")
    required.write_text("cat\tblue\n\nhouse\n")
    files = ("--prefix", prefix, "--require-file", required, "--batch-size", 1, "--forbid", "red")
    status, output, _ = attn_zoo("translate", trained, "--input", source, *files)
    first, empty, third = output.splitlines()
    assert status == 0 and not empty
    assert first.split()[0] == "dog" and {"cat", "blue"} <= set(first.split())
    assert third.startswith("blue cat") and "house" in third.split()
    assert "red" not in output.split()
    prefix.write_text("dog\n\n")
    line = "prefix has 2 lines, but the text has 3: give a line for each sentence.\n"
    refused(line, "translate", trained, "--input", source, *files)
    prefix.write_text("dog\n\nblue\ncat\n")
    refused("prefix has 4 lines, but the text has 1", "translate", trained, "--prefix", prefix, "rot")
    prefix.write_text(f"dog\n\n{'cat ' * 40}\n")
    refused("of sentence 3, prefix and required words have 41 tokens", "translate", trained, "--input", source, *files)


def test_what_cannot_be_met_is_an_empty_line(attn_zoo, trained, translations):
    # All words but one, of which a translation may not have two.
    words = ["red", "blue", "house", "dog", "goes", "runs"]
    options = ("--forbid", *words, "--no-repeat-ngram", 1, "--min-length", 4)
    status, output, error = attn_zoo("translate", trained, *options, "--n-best", 2, "--", SENTENCES[0])
    assert status == 0 and output == "0 |||  ||| 0.0000\n"
    assert "line 1: no translation was found that meets the constraints" in error


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--seed", 3), "only --strategy sampling draws: leave out --seed."),
        (("--groups", 3), "only --strategy diverse has groups: leave out --groups."),
        (
            ("--strategy", "sampling", "--beams", 3),
            "--strategy sampling has no beams, but --samples: leave out --beams.",
        ),
        (
            ("--strategy", "diverse", "--require", "house"),
            "required words need plain beam search, --strategy beam: leave out --require.",
        ),
        (
            ("--strategy", "sampling", "--samples", 2, "--n-best", 3),
            "--n-best 3 is more than 2 samples: set --samples 3.",
        ),
        (("--strategy", "diverse", "--beams", 5, "--groups", 2), "--groups 2 does not divide 5 beams: set --beams 6."),
        (("--min-length", 90), "--min-length 90 is more than the 13 tokens that a translation may have"),
        (("--require", "cat", "house", "--forbid", "cat"), "'cat' is required and has a forbidden word"),
    ],
)
def test_what_contradicts_itself_is_refused(refused, trained, options, said):
    refused(said, "translate", trained, *options, "--", SENTENCES[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--strategy", "sampler"), "argument --strategy: there is no 'sampler': did you mean sampling? (see"),
        (("--mbr", "chfr"), "argument --mbr: there is no 'chfr': did you mean chrf? (see"),
        (("--top-p", 1.5), "argument --top-p: the value must be a number above 0 and at most 1; received 1.5. (see"),
    ],
)
def test_a_mistyped_name_gets_the_nearest(attn_zoo, capsys, options, said):
    with pytest.raises(SystemExit, match="2"):
        attn_zoo("translate", "nowhere", *options)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
