"""The small site, built once; a server of it; a browser."""

import pytest

from keras_attn_zoo.site import site_builder
from tests.site.small_site import few_presets, small_parts, write_docs
from tests.viewing.conftest import browser
from tests.viewing.static_site import site

__all__ = ["browser"]


@pytest.fixture(scope="session")
def docs(tmp_path_factory):
    return write_docs(tmp_path_factory.mktemp("docs"))


@pytest.fixture
def small(docs, tmp_path):
    """Whatever is built here is small."""
    with few_presets(tmp_path), small_parts(docs):
        yield


@pytest.fixture(scope="session")
def built(docs, tmp_path_factory):
    """A site; tests that change it copy it."""
    folder = tmp_path_factory.mktemp("built")
    with few_presets(folder), small_parts(docs):
        site_builder.build_site(folder / "site")
    return folder / "site"


@pytest.fixture(scope="session")
def address(built):
    """Where the site is served: below a path, as the pages of a repository are."""
    with site(built.parent) as server:
        yield f"{server}site"
