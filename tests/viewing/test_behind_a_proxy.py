"""The page behind nginx and in frames, in Chromium. Names that end in `localhost` lead to this machine in a browser."""

import time

import pytest

from keras_attn_zoo.viewing.page_access import Access
from keras_attn_zoo.viewing.page_server import PageServer, serving
from tests.viewing import nginx, samples
from tests.viewing.test_page_server import examine

LOCATIONS = """
    # The usual configuration: it takes the prefix off, and calls the server by its address.
    location /off/8000/ {{ proxy_pass http://127.0.0.1:{permitting}/; }}
    location /on/8000 {{ proxy_pass http://127.0.0.1:{permitting}; proxy_set_header Host $http_host; }}
    location /plain/on/ {{ proxy_pass http://127.0.0.1:{plain}; }}
    location /plain/named/ {{ proxy_pass http://127.0.0.1:{plain}/; proxy_set_header Host $http_host; }}
    location /plain/ {{ proxy_pass http://127.0.0.1:{plain}/; }}
    # As a forwarded port.
    location = / {{ proxy_pass http://127.0.0.1:{plain}; proxy_set_header Host $http_host; }}
    location = /explore {{ proxy_pass http://127.0.0.1:{plain}; proxy_set_header Host $http_host; }}
    location = /around/permitting {{ return 200 '<iframe src="http://127.0.0.1:{permitting}/?a=b"></iframe>'; }}
    location = /around/plain {{ return 200 '<iframe src="http://127.0.0.1:{plain}/"></iframe>'; }}
    location = /around/own {{ return 200 '<iframe src="/"></iframe>'; }}
"""


@pytest.fixture(scope="module")
def served(browser):
    """The browser, the ports of nginx and of two servers of the page; only the first permits more than the usual."""
    if nginx.executable() is None:
        pytest.skip("there is no nginx: apt-get install nginx-light")
    access = Access(["zoo.localhost"], "/on/8000/", ["http://zoo.localhost:*"])
    with (
        serving(PageServer(samples.page(), examine, port=0, access=access)) as permitting,
        serving(PageServer(samples.page(), examine, port=0)) as plain,
        nginx.proxying(LOCATIONS.format(permitting=permitting.port, plain=plain.port)) as port,
    ):
        yield browser, port, permitting.port, plain.port


def ask(browser, sentence):
    """Type a sentence in, and send it off."""
    browser.run("document.querySelector('textarea[name=sentence]').focus()")
    browser.send("Input.insertText", text=sentence)
    browser.run("document.querySelector('.live').requestSubmit()")


def check_answer(browser):
    """A sentence that is typed in is translated."""
    ask(browser, "Guten Morgen")
    browser.wait("document.querySelector('.source').textContent === 'Guten Morgen'")


@pytest.mark.parametrize(
    "address",
    [
        *("zoo.localhost:{}/off/8000/", "zoo.localhost:{}/on/8000/", "zoo.localhost:{}/on/8000"),
        *("zoo.localhost:{}/on/8000/?vscodeBrowserReqId=17", "localhost:{}/", "127.0.0.1:{}/?a=b"),
    ],
)
def test_a_sentence_is_translated_through_a_proxy(served, address):
    browser, port, *_ = served
    browser.open(f"http://{address.format(port)}")
    check_answer(browser)
    assert browser.complaints == []


def test_the_page_says_what_would_permit_it(served):
    """A proxy that calls the server by its address shows the page; what it sends comes from elsewhere."""
    browser, port, *_ = served
    browser.open(f"http://zoo.localhost:{port}/plain/")
    ask(browser, "Guten Morgen")
    browser.wait("document.querySelector('.live .message').textContent.endsWith('add --allow-host zoo.localhost.')")
    for path, advice in (("plain/named/", "--allow-host zoo.localhost."), ("plain/on/", "--base-path /plain/on/.")):
        browser.send("Page.navigate", url=f"http://zoo.localhost:{port}/{path}")
        browser.wait(f"document.body.textContent.includes('add {advice}')")


def test_a_frame_of_an_origin_that_is_permitted(served):
    browser, port, permitting, _ = served
    browser.send("Page.navigate", url=f"http://zoo.localhost:{port}/around/permitting")
    with browser.frame(f"http://127.0.0.1:{permitting}/"):
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        check_answer(browser)


def test_a_frame_of_the_same_origin(served):
    browser, port, *_ = served
    browser.send("Page.navigate", url=f"http://localhost:{port}/around/own")
    browser.wait("frames[0].document.documentElement.dataset.ready === 'yes'")


@pytest.mark.parametrize("server", ["permitting", "plain"])
def test_a_frame_of_another_origin_says_what_would_permit_it(served, server):
    browser, port, permitting, plain = served
    browser.send("Page.navigate", url=f"http://other.localhost:{port}/around/{server}")
    with browser.frame(f"http://127.0.0.1:{permitting if server == 'permitting' else plain}/"):
        browser.wait(f"document.body.textContent.includes('add --allow-frame http://other.localhost:{port}.')")
        assert browser.run("document.scripts.length") == 0


@pytest.mark.parametrize("server", ["permitting", "plain"])
def test_the_browser_refuses_frames_by_itself(served, server, monkeypatch):
    """Older ones do not say that there is a frame."""
    browser, port, *_ = served
    monkeypatch.setattr(Access, "refused_frame", lambda self, headers: None)
    browser.complaints.clear()
    browser.send("Page.navigate", url=f"http://other.localhost:{port}/around/{server}")
    end = time.monotonic() + 10
    while not any("frame-ancestors 'self'" in one for one in browser.complaints):
        assert time.monotonic() < end, browser.complaints
        browser.run("1")
