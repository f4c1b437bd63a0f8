"""What is permitted to reach the server, by whose name, path and frame; and what each refusal says."""

import json
import logging
import re

import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing.page_access import Access
from keras_attn_zoo.viewing.page_server import PageServer, serving
from tests.viewing import samples
from tests.viewing.test_page_server import ask, examine, post


@pytest.fixture(scope="module")
def server():
    access = Access(
        ["Example.org", "bücher.example", "::2"], "proxy/8000", ["https://notes.example", "https://*.lab.example"]
    )
    with serving(PageServer(samples.page(), examine, port=0, access=access)) as server:
        yield server


@pytest.mark.parametrize(
    "host", ["example.org", "EXAMPLE.org:9000", "xn--bcher-kva.example", "[::2]:80", "localhost:1"]
)
def test_names_that_were_given(server, host):
    assert ask(server, Host=host)[0].status == 200
    for scheme in ("http", "https"):
        # Behind a proxy with TLS; and behind one that names the server in its own way.
        expected = 200 if not host.startswith("localhost") or scheme == "http" else 403
        for named in (host, "127.0.0.1:8000"):
            expected = 403 if (host, named) == ("localhost:1", "127.0.0.1:8000") else expected
            assert post(server, {"sentence": "Hallo"}, Host=named, Origin=f"{scheme}://{host}")[0] == expected


@pytest.mark.parametrize("host", ["www.example.org", "example.org.evil.example", "evil.example", "org"])
def test_others_are_still_refused(server, host):
    assert ask(server, Host=host)[0].status == 403
    status, answer = post(server, {"sentence": "Hallo"}, Origin=f"https://{host}:9000")
    assert status == 403 and answer["error"].endswith(f"behind a proxy, add --allow-host {host}.")


def test_an_origin_that_no_option_permits():
    """A page in a sandbox has none, and an extension is no page behind a proxy."""
    for origin in ("null", "", "chrome-extension://example.org", "file://", "https://example.org/", "https://a b"):
        status, message = Access(["example.org", "null"]).refused_origin(origin, "example.org")
        assert status == 403 and "--allow" not in message


@pytest.mark.parametrize("base", ["/", "/proxy/8000/"])
def test_a_prefix_may_be_passed_on_or_taken_off_and_a_query_is_ignored(server, base):
    for query in ("", "?", "?a=b", "?vscodeBrowserReqId=1700000000000", "?x=/../y"):
        assert ask(server, path=f"{base}{query}")[1] == server.page
        answer, _ = ask(
            server, "POST", f"{base}explore{query}", '{"sentence": "Hallo"}', Content_Type="application/json"
        )
        assert answer.status == 200


def test_a_path_without_its_last_slash(server):
    """From there, the page would ask beside its folder."""
    answer, _ = ask(server, path="/proxy/8000?a=b")
    assert (answer.status, answer.headers["Location"]) == (308, "/proxy/8000/?a=b")
    assert ask(server, path="/proxy")[0].status == 404


@pytest.mark.parametrize(
    ("method", "path", "base"),
    [
        *(("GET", "/user/me/proxy/9/", "/user/me/proxy/9/"), ("GET", "/proxy/9?a=b", "/proxy/9/")),
        *(("POST", "/proxy/9/explore", "/proxy/9/"), ("GET", "/favicon.ico", None), ("GET", '/"/', None)),
        *(("GET", "/user/anna.b/proxy/9/", "/user/anna.b/proxy/9/"), ("GET", "/user/anna.b/favicon.ico", None)),
        *(("POST", "/anna.b/9/explore", "/anna.b/9/"), ("GET", "/v1.2/9?a=b", "/v1.2/9/"), ("GET", "/../9/", None)),
    ],
)
def test_a_path_that_is_refused_says_how_to_permit_it(server, method, path, base):
    answer, content = ask(server, method, path, "{}" if method == "POST" else None, Content_Type="application/json")
    message = json.loads(content)["error"]
    assert answer.status == 404 and "the page is at /proxy/8000/" in message
    if base is None:
        assert "--base-path" not in message
    else:
        assert message.endswith(f" add --base-path {base}.")
        assert Access(base_path=base).route(path) is not None


CROSS = {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"}
FRAMED = {name.replace("-", "_"): value for name, value in CROSS.items()}


def test_frames_that_were_given(server):
    for around in ("https://notes.example/", "https://a.lab.example/b?c", "https://a.b.lab.example/"):
        answer, _ = ask(server, **FRAMED, Referer=around)
        assert answer.status == 200 and "X-Frame-Options" not in answer.headers
        policy = answer.headers["Content-Security-Policy"]
        assert policy.endswith("; frame-ancestors 'self' https://notes.example https://*.lab.example")
    # The browser says no more than that there is a frame: it decides by the policy.
    assert ask(server, **FRAMED)[0].status == 200


@pytest.mark.parametrize("around", ["https://evil.example", "http://notes.example", "https://notes.example:9000"])
def test_frames_that_were_not(server, around):
    """A browser would show nothing there; the refusal may be shown, and says what to do."""
    answer, content = ask(server, **FRAMED, Referer=f"{around}/")
    assert answer.status == 403 and json.loads(content)["error"].endswith(f"add --allow-frame {around}.")
    assert "frame" not in answer.headers["Content-Security-Policy"] and "X-Frame-Options" not in answer.headers


@pytest.mark.parametrize(
    ("around", "advice"),
    [
        ("vscode-webview://0a1b2c/index.html", "--allow-frame vscode-webview: and --allow-frame vscode-file:"),
        ("vscode-file://vscode-app/x", "--allow-frame vscode-file:"),
        ("app://obsidian.md/", "--allow-frame app:"),
    ],
)
def test_frames_of_applications_are_refused_with_what_permits_them(around, advice):
    """The options of the message, as it has them, permit the frame."""
    headers = {**CROSS, "Referer": around}
    for given in ([], ["https://example.org"]):
        status, message = Access(frames=given).refused_frame(headers)
        assert status == 403 and message.endswith(f"if that is yours, add {advice}.")
    access = Access(frames=re.findall(r"--allow-frame (\S+:)", message))
    assert access.refused_frame(headers) is None
    assert all(one in access.frame_headers()[0] for one in access.frames)


@pytest.mark.parametrize(
    "around", ["javascript%3A://x", "a\x1b://x", f"{'a' * 99}://x", "://x", "https://", "http://a b/"]
)
def test_what_is_no_origin_is_not_repeated(around):
    headers = {**CROSS, "Referer": around}
    assert around[:9] not in Access().refused_frame(headers)[1].replace("https://example.org", "")


def test_frames_without_options():
    access = Access()
    assert access.refused_frame(CROSS)[1].endswith(
        "--allow-frame with the origin of the page around it, such as https://example.org, or an application's scheme, "
        "such as vscode-webview:."
    )
    # A page of the same origin, such as Jupyter's in front of it, could read this one anyway.
    assert access.refused_frame({**CROSS, "Sec-Fetch-Site": "same-origin"}) is None
    assert access.refused_frame({**CROSS, "Sec-Fetch-Dest": "document"}) is None
    assert access.refused_frame({}) is None


def test_a_refusal_is_logged_once_and_not_for_ever(caplog):
    with caplog.at_level(logging.WARNING), serving(PageServer(samples.page(), examine, port=0)) as server:
        for _ in range(2):
            ask(server, Host="proxy.example")
        assert [one.getMessage() for one in caplog.records] == [
            "this server does not answer to the name proxy.example: if it is yours, add --allow-host proxy.example."
        ]
        post(server, {"sentence": "Hallo"}, Origin="https://proxy.example")
        ask(server, path="/proxy/9/")
        ask(server, **FRAMED, Referer="https://notes.example/")
        assert [one.getMessage().rpartition("add ")[2] for one in caplog.records[1:]] == [
            *("--allow-host proxy.example.", "--base-path /proxy/9/.", "--allow-frame https://notes.example.")
        ]
        for i in range(30):
            ask(server, Host=f"{i}.evil.example")
        assert len(caplog.records) == 20


HOSTS = ("", "http://example.org", "example.org:80", "a/b", "a..b", "*", "[::1]:80", "a b", "a\r\nb", "[a]")
PATHS = ("/a?b", "/a b/", "//evil.example/", "/a//b", "/../", "https://example.org/", "/a\r\nb", "/ü/", '/"/')
FRAMES = ("*", "example.org", "https:", "http:", "https://a; script-src *", "https://a/b", "'none'", "a\n:", "")


@pytest.mark.parametrize(
    ("message", "access"),
    [
        *(("a host is a name", {"hosts": [host]}) for host in HOSTS),
        *(("the base path is one", {"base_path": path}) for path in PATHS),
        *(("is given by its origin", {"frames": [frame]}) for frame in FRAMES),
    ],
)
def test_what_is_no_host_path_or_origin_is_refused(message, access):
    with pytest.raises(UserError, match=message) as caught:
        Access(**access)
    assert "\n" not in str(caught.value) and "received" in str(caught.value)
