"""Hostile command lines are refused in one line: the first cases; `python -m tests --all` runs 100 times as many.

Of kills of commands, the tests of the day have the list of what is killed, and the look at what is left.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import command_kills
from tests.hostile.command_kills import content_of, is_whole
from tests.hostile.good_lines import COMMANDS, RECIPE
from tests.hostile.judging import Case, Hang, judge
from tests.hostile.killed_commands import NEVER_WRITE, NEVER_WRITING, WRITING, command_lines
from tests.hostile.options import known_parsers, make_case

CASES = 10


@pytest.mark.long
def test_cases_end_with_a_status_and_a_line():
    """In processes of their own: damage that kills one must not kill the tests."""
    command = [sys.executable, "-m", "tests.hostile", "--start", "0", "--cases", str(CASES)]
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
        ({}, None),
    ],
)
def test_what_is_wrong_is_seen(ended, reason):
    case = Case("a case", [], expect="refuse", names=("a.txt",))
    good = {"status": 2, "output": "", "error": "attn-zoo: error: no file a.txt\n", "raised": None}
    found = judge(case, **{**good, **ended})
    assert (reason is None and not found) or any(reason in one for one in found)


def test_every_command_and_recipe_that_writes_is_killed():
    killed = {line.path for line in command_lines()}
    assert killed.isdisjoint(NEVER_WRITE) and all(NEVER_WRITE.values())
    assert {*killed, *NEVER_WRITE} == known_parsers().keys()


def test_every_option_that_names_what_is_written_is_killed():
    for path, parser in known_parsers().items():
        lines = [line.arguments for line in command_lines() if line.path == path]
        given = [vars(parser.parse_known_args(line[len(path) - 1 :])[0]) for line in lines]
        for action in parser._actions:
            if action.dest in WRITING and path not in NEVER_WRITE:
                used = any(one[action.dest] not in (None, False, action.default) for one in given)
                assert used or action.dest in NEVER_WRITING.get(path, {}), f"{path}: {action.dest}"


def test_a_part_of_a_name_that_no_line_has_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(SystemExit, match="2"):
        command_kills.main(["--only", "nonsense"])
    assert "no command line has 'nonsense' in its name: " in capsys.readouterr().err


def test_lines_that_are_killed_are_good_ones():
    for line in command_lines():
        _, rest = known_parsers()[line.path].parse_known_args(line.arguments[len(line.path) - 1 :])
        assert not rest
    names = [line.name for line in command_lines()]
    assert len(names) == len({*names})


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


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            b"| Bahdanau | 140.23 [1.52] | 1 [5221] | 0:01 |",
            b"| Bahdanau | 140.23 [1.52] | 12 [5221] | 1:00:01 |",
            True,
        ),
        (b"a & 1 {[}5221]", b"a & 2 {[}5221]", True),
        (b"| 140.23 [1.52] |", b"| 140.24 [1.52] |", False),
        (b"| 10.2 % |", b"| 11.2 % |", False),
    ],
)
def test_tables_are_the_same_but_for_times(one, other, same):
    assert (content_of("a.md", one) == content_of("a.md", other)) is same
