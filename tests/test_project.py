"""What the files beside the package say of it."""

import re
from pathlib import Path

import pytest

import keras_attn_zoo

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1]
    last = re.search(r"^## (\d\S+) - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)[1]
    assert cited == last == keras_attn_zoo.__version__


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
