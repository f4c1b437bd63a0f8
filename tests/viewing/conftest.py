"""A browser, and a page in it."""

import pytest

from tests.viewing import samples
from tests.viewing.chromium import Browser, executable


@pytest.fixture(scope="session")
def browser():
    if executable() is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    samples.page().save(path)
    return path


@pytest.fixture
def page(browser, saved):
    browser.open(saved)
    yield browser
    assert browser.complaints == []
