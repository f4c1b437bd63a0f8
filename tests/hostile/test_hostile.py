"""Hostile input is refused in one line: the first seeded cases; `python -m tests --all` runs 100 times as many."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.cases import make_case
from tests.hostile.command_kills import command_lines, is_whole
from tests.hostile.good_lines import COMMANDS, RECIPE, good_lines
from tests.hostile.judging import Case, Hang, judge
from tests.hostile.options import known_parsers
from tests.hostile.strings import CONTROL

CASES = 30


@pytest.mark.long
def test_cases_end_with_a_status_and_a_line():
    """In processes of their own: damage that kills one must not kill the tests. Good command lines first."""
    good = len(good_lines())
    command = [sys.executable, "-m", "tests.hostile", "--start", str(-good), "--cases", str(good + CASES)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_has_a_good_command_line_to_begin_with():
    assert {path[1:] for path in known_parsers() if path[0] == "attn-zoo"} == COMMANDS.keys()
    for path, parser in known_parsers().items():
        for base in COMMANDS[path[1:]] if path[0] == "attn-zoo" else [RECIPE]:
            _, rest = parser.parse_known_args(base[len(path) - 1 :])
            assert not rest


def test_a_number_always_gives_the_same_case():
    for number in range(40):
        one, other = make_case(number), make_case(number)
        assert (one.text, one.arguments, one.expect) == (other.text, other.arguments, other.expect)


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        ({"status": 0}, "taken in silence"),
        ({"status": 1}, "status 1"),
        ({"raised": KeyError("x")}, "traceback: KeyError"),
        ({"raised": Hang()}, "hung"),
        ({"error": "Traceback (most recent call last):\nattn-zoo: error: no file a.txt\n"}, "noise"),
        ({"error": "attn-zoo: error: no file b.txt\n"}, "names none"),
        ({"error": "attn-zoo: error: no file a.txt\nmore\n"}, "no single last line"),
        ({"error": "attn-zoo: error: a.txt " + "x" * 5000}, "characters"),
        ({"error": ""}, "no single last line"),
        ({"output": "\x1b[2J"}, "as it came"),
        ({}, None),
    ],
)
def test_what_is_wrong_is_seen(ended, reason):
    case = Case("text", "a case", [], expect="refuse", names=("a.txt",), clean=CONTROL)
    good = {"status": 2, "output": "", "error": "attn-zoo: error: no file a.txt\n", "raised": None, "seconds": 1.0}
    found = judge(case, **{**good, **ended})
    assert (reason is None and not found) or any(reason in one for one in found)


def test_every_command_that_writes_is_killed():
    killed = {name for name, _, _ in command_lines()}
    assert {" ".join(path) for path in COMMANDS} - killed == {"presets publish", "corpora", "systems"}


@pytest.mark.parametrize(
    ("name", "whole", "cut"),
    [
        ("a.json", b"{}", b"{"),
        ("a.jsonl", b'{}\n{"a": 1', b'{\n{"a": 1}\n'),
        ("a.svg", b"<svg></svg>\n", b"<svg></svg"),
        ("a.html", b"<html></html>", b"<html>"),
        ("a.pdf", b"%PDF-1.4\n%%EOF\n", b"%PDF-1.4\n"),
        ("a.txt", b"a\n", b"a"),
    ],
)
def test_files_that_are_cut_are_seen(name, whole, cut):
    assert is_whole(name, whole) and not is_whole(name, cut)
