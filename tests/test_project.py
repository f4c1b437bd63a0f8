"""What the files beside the package say of it."""

import re
import runpy
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import keras_attn_zoo
from keras_attn_zoo.presets.preset_registry import BASE_URL

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    cited = re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1]
    last = re.search(r"^## (\d\S+) - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)[1]
    assert cited == last == keras_attn_zoo.__version__


def test_external_links_are_found_where_sphinx_does_not_look(monkeypatch, capsys):
    """They are opened every night; here none is."""
    checker = runpy.run_path(str(ROOT / "docs" / "check_links.py"))
    found = {path.relative_to(ROOT).as_posix(): checker["links"](path) for path in checker["FILES"]}
    assert found["docs/tutorials/quickstart.ipynb"] == ["https://colab.research.google.com/assets/colab-badge.svg"]
    assert set(re.findall(r"^    url: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)) <= set(
        found["CITATION.cff"]
    )
    cards = [name for name in found if re.fullmatch(r"presets/\w+/README.md", name)]
    assert cards and all("https://tatoeba.org" in found[name] for name in cards)
    assert not any("OWNER" in link for links in found.values() for link in links)
    broken = found["CITATION.cff"][0]

    def open_url(request, timeout):
        if request.full_url == broken:
            raise urllib.error.HTTPError(broken, 404, "Not Found", None, None)

    monkeypatch.setattr(urllib.request, "urlopen", open_url)
    assert checker["main"]() == 1
    assert capsys.readouterr().out == f"CITATION.cff: {broken}: status 404\n"


def test_the_readme_begins_with_the_site_from_which_presets_are_downloaded():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.partition("\n## ")[0].count(f"({BASE_URL})") == 2


REQUIREMENTS = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")


def named(requirement):
    """The name of a requirement, as package indexes compare it."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_whatever_the_project_asks_for_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pinned = {named(line): line for line in REQUIREMENTS.splitlines() if re.fullmatch(r"[\w.-]+==[\w.+]+", line)}
    assert {named(one) for one in asked} - {"keras-attn-zoo"} <= pinned.keys()


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_ask_for_what_is_pinned(workflow):
    """A `grep` in a workflow that finds nothing would install nothing, in silence."""
    for names in re.findall(r'grep -E "\^\(([\w|-]+)\)=="', workflow.read_text(encoding="utf-8")):
        for name in names.split("|"):
            assert re.search(rf"^{name}==", REQUIREMENTS, re.MULTILINE), name


def test_no_two_files_of_the_package_share_a_name():
    names = [path.name for path in (ROOT / "keras_attn_zoo").rglob("*.py") if not path.name.startswith("__")]
    assert len(names) == len(set(names))
