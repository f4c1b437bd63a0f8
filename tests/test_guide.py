"""The guide stays short, its page of speed is that of the records, and the house does not grow again."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = runpy.run_path(str(ROOT / "docs" / "write_house.py"))
GUIDE = HOUSE["guide"]()
# Words.
MOST, MOST_OF_A_PAGE, MOST_OF_SPEED = 30_000, 1500, 1200
# Lines of code and words go up and down from one change to the next.
SLACK = 1.02
pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.name)
def test_a_page_is_read_in_one_sitting(page):
    assert len(GUIDE[page].split()) <= MOST_OF_A_PAGE


def test_the_guide_is_short():
    assert 10_000 < HOUSE["words"]() <= MOST


def test_what_commands_write_is_no_part_of_the_guide(tmp_path):
    """Nor are records; what stands between the blocks of commands is."""
    generated = HOUSE["GENERATED"]
    text = "a\n\n<!-- house -->\n\n| x |\n\n<!-- end -->\n\nb\n\n<!-- settings: model -->\n\ny\n\n<!-- end -->\n"
    assert generated.sub("", text).split() == ["a", "b"]
    assert not any({"api", "results"} & set(page.relative_to(ROOT).parts) for page in GUIDE)


def test_the_page_of_speed_is_short_and_that_of_the_records():
    """Its tables included."""
    speed = runpy.run_path(str(ROOT / "docs" / "write_speed.py"))
    page = speed["PAGE"].read_text(encoding="utf-8")
    assert len(page.split()) <= MOST_OF_SPEED
    assert page == speed["with_tables"](page), "stale: run `python docs/write_speed.py`"
    assert re.findall(r"<!-- peers: (\w+) -->", page) == list(speed["blocks"]())


def test_the_house_does_not_grow():
    """Counts may fall below what the page says, and are written when somebody wants to show them."""
    text = HOUSE["PAGE"].read_text(encoding="utf-8")
    written = {}
    for name, found in HOUSE["counts"]().items():
        row = re.search(rf"^\| {re.escape(name)} \| [^|]* \| ([\d,]+) \|", text, re.MULTILINE)
        written[name] = int(row[1].replace(",", ""))
        most = written[name] * (SLACK if written[name] > 1000 else 1)
        assert found <= most, (
            f"{name}: {found} for {written[name]}; if it has to grow, run `python docs/write_house.py`"
        )
    assert text == HOUSE["with_table"](text, written), "stale: run `python docs/write_house.py`"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("road", "row"),
    [
        ("sentence", "functions that a sentence passes through to ids"),
        ("setting", "functions that a setting passes through to its layer"),
    ],
)
def test_roads_are_no_longer_than_the_page_says(road, row):
    command = [sys.executable, str(ROOT / "docs" / "count_hops.py"), road]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = HOUSE["PAGE"].read_text(encoding="utf-8")
    written = re.search(rf"^\| {row} \| [^|]* \| ([\d,]+) \|", text, re.MULTILINE)[1]
    assert 5 < int(re.search(r"handed on by (\d+):", said)[1]) <= int(written)


def test_the_house_is_counted(tmp_path, monkeypatch):
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    asking = "import keras\n\nif keras.config.backend() == 'jax':\n    pass\n"
    (kernels / "forms.py").write_text(f"from keras_attn_zoo.kernels.processor import flags\n\n{asking}")
    (tmp_path / "above.py").write_text(
        "import contextvars\nfrom keras.src.utils import tracking\nfrom keras_attn_zoo.support import processor\n\n"
        f"{asking}\nA = contextvars.ContextVar('a')\n\n\ndef _own(layer):\n    _own(layer._flatten_layers())\n"
    )
    for name in ("sources", "outside_kernels"):
        monkeypatch.setitem(HOUSE[name].__globals__, "PACKAGE", tmp_path)
    monkeypatch.setattr(HOUSE["sources"], "__defaults__", (tmp_path,))
    counted = [
        HOUSE[name]()
        for name in (
            "context_variables",
            "files_that_know_the_processor",
            "files_that_ask_for_the_backend",
            "private_names",
        )
    ]
    counted[-1] = len(counted[-1])
    assert counted == [1, 1, 1, 2]
    assert HOUSE["lines"](kernels) == 6
