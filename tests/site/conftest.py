"""The small site, built once; a server of it; a browser."""

import functools
import http.server
import threading

import pytest

from keras_attn_zoo.site import site_builder
from tests.site.small_site import few_presets, small_parts, write_docs
from tests.viewing.conftest import browser

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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def address(built):
    """Where the site is served: below a path, as the pages of a repository are."""
    handler = functools.partial(_Quiet, directory=built.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/site"
        server.shutdown()
