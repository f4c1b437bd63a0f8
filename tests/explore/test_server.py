"""The server of the page: what it answers, and what it refuses."""

import http.client
import json
import socket

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.explore.page import Page
from keras_attn_zoo.explore.server import MOST_BYTES, PageServer, serving
from tests.explore import samples
from tests.explore.test_packing import unpack


def examine(sentence, target):
    if sentence == "bad":
        raise UserError("the sentence is bad: give another one.")
    if sentence == "broken":
        raise RuntimeError("secret")
    one = samples.sentence(gold=None)
    shown = type(one)(sentence, one.words)
    return Page([samples.system()], [shown], [[samples.result(given=target is not None)]])


@pytest.fixture(scope="module")
def server():
    with serving(PageServer(samples.page(), examine, port=0)) as server:
        yield server


def ask(server, method="GET", path="/", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def post(server, value, **headers):
    answer, content = ask(
        server, "POST", "/explore", json.dumps(value), **{"Content_Type": "application/json", **headers}
    )
    return answer.status, json.loads(content)


def test_the_page_and_a_sentence(server):
    answer, content = ask(server)
    assert answer.status == 200 and content == samples.page().html(live=True).encode()
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    status, answer = post(server, {"sentence": "<b>Hallo", "target": "Hello"})
    data, _ = unpack(json.dumps(answer))
    assert (status, data["sentences"][0]["text"]) == (200, "<b>Hallo")
    assert [path["kind"] for path in data["sentences"][0]["results"][0]["paths"]] == ["own", "given"]
    assert ask(server, "HEAD")[1] == b""


@pytest.mark.parametrize(
    "path", ["/explore", "/index.html", "/../pyproject.toml", "//etc/passwd", "/?a=b", "/favicon.ico"]
)
def test_no_path_but_its_own(server, path):
    assert ask(server, path=path)[0].status == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", ""]
)
def test_other_names_are_refused(server, host):
    """A site whose name turns into 127.0.0.1 reaches nothing."""
    host = host.format(port=server.port)
    assert ask(server, Host=host)[0].status == 403
    assert post(server, {"sentence": "Hallo"}, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "127.0.0.1"])
def test_its_own_names_are_not(server, host):
    assert ask(server, Host=host.format(port=server.port))[0].status == 200


def test_pages_of_others_are_refused(server):
    assert post(server, {"sentence": "Hallo"}, Origin="https://evil.example")[0] == 403
    assert post(server, {"sentence": "Hallo"}, Origin="null")[0] == 403
    assert post(server, {"sentence": "Hallo"}, Origin=f"http://127.0.0.1:{server.port}")[0] == 200
    assert ask(server, "POST", "/explore", "{}", Content_Type="text/plain")[0].status == 415
    assert ask(server, "OPTIONS", "/explore")[0].status == 501


@pytest.mark.parametrize(
    "value",
    [{}, [], None, {"sentence": 1}, {"sentence": "a", "target": 1}, {"sentence": "\ud800"}, {"sentence": "bad"}],
)
def test_bad_requests_are_told_in_a_line(server, value):
    status, data = post(server, value)
    assert status == 400 and data.keys() == {"error"} and "\n" not in data["error"]


def test_what_is_no_json_and_what_breaks(server):
    answer, content = ask(server, "POST", "/explore", "{", Content_Type="application/json")
    assert answer.status == 400 and b"JSON" in content
    status, data = post(server, {"sentence": "broken"})
    assert status == 500 and "secret" not in data["error"]
    # The server goes on.
    assert post(server, {"sentence": "Hallo"})[0] == 200


def test_large_requests_are_refused_unread(server):
    assert post(server, {"sentence": "a" * MOST_BYTES})[0] == 413
    for headers in ("Content-Length: x\r\n", "Content-Length: -1\r\n", "", "Transfer-Encoding: chunked\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(
                f"POST /explore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}\r\n".encode()
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 411")


def test_a_port_that_is_taken(server):
    with pytest.raises(UserError, match=rf"^cannot listen on port {server.port} of 127.0.0.1: .* Choose another"):
        PageServer(samples.page(), examine, port=server.port)
    with pytest.raises(UserError, match=r"^cannot listen on port 80 of 203.0.113.7"):
        PageServer(samples.page(), examine, "203.0.113.7", 80)


def test_it_listens_on_loopback_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_everywhere_is_answered_by_address():
    with serving(PageServer(samples.page(), examine, "0.0.0.0", 0)) as server:
        assert server.allows(f"192.168.1.7:{server.port}") and server.allows(f"localhost:{server.port}")
        assert not server.allows(f"evil.example:{server.port}") and not server.allows(None)
