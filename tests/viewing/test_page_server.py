"""The server of the page: what it answers and refuses, requests of two readings, and connections that bring none."""

import contextlib
import http.client
import json
import logging
import re
import select
import socket
import threading
import time

import pytest

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.viewing import page_server as explore_server
from keras_attn_zoo.viewing.page import Page
from keras_attn_zoo.viewing.page_server import MOST_BYTES, MOST_HEAD, PageServer, serving
from tests.viewing import samples
from tests.viewing.test_page_packing import unpack

HOST = "Host: 127.0.0.1\r\n"
POST = f"POST /explore HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
BODY = '{"sentence": "Hallo"}'
LENGTH = f"Content-Length: {len(BODY)}\r\n"


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
    "path", ["/explore", "/index.html", "/../pyproject.toml", "//etc/passwd", "/a?/", "/favicon.ico", "/%2e%2e/"]
)
def test_no_path_but_its_own(server, path):
    assert ask(server, path=path)[0].status == 404


def test_the_policy_of_the_page_is_a_header_too(server):
    answer, content = ask(server)
    header, meta = answer.headers["Content-Security-Policy"], re.search(rb'Policy" content="(.*?)"', content)[1]
    # What says who may show the page in a frame counts in a header alone.
    assert header == f"{meta.decode()}; frame-ancestors 'self'" and "connect-src 'self'" in header
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost.evil.example"),
        *("127.evil", "192.168.1.7:{port}", "[::2]:{port}", "localhosts", "0.0.0.0"),
    ],
)
def test_other_names_are_refused(server, host):
    """A site whose name turns into 127.0.0.1 reaches nothing; who owns the name is told what to do."""
    host = host.format(port=server.port)
    name = host.removesuffix(f":{server.port}").strip("[]")
    answer, content = ask(server, Host=host)
    assert answer.status == 403 and json.loads(content)["error"].endswith(f"if it is yours, add --allow-host {name}.")
    assert post(server, {"sentence": "Hallo"}, Host=host)[0] == 403


@pytest.mark.parametrize(
    "host",
    [
        *("", "127.0.0.1:\xb2", "127.0.0.1:" + "1" * 5000, "a b", "a/b", "localhost:", "localhost@evil.example"),
        *("[localhost]", "[::1", "::1", "localhost, localhost", "a;b", "<b>"),
    ],
)
def test_what_is_no_name_is_refused(server, host):
    answer, content = ask(server, Host=host)
    assert answer.status == 400 and (not host or host not in content.decode())


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "127.0.0.1", "127.0.0.1:1", "localhost:9000"),
        *("127.8.9.1:9000", "[::1]:9000", "[::1]"),
    ],
)
def test_names_of_this_machine_are_not_whatever_their_port(server, host):
    """A port that is forwarded, by `ssh` or to a container, has another number here than there."""
    host = host.format(port=server.port)
    assert ask(server, Host=host)[0].status == 200
    assert post(server, {"sentence": "Hallo"}, Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize("given", ["127.1", "2130706433", "0x7f000001", "0"])
def test_an_address_in_another_spelling(given):
    """A browser asks for the address that it stands for."""
    with serving(PageServer(samples.page(), examine, given, 0)) as server:
        assert server.url == f"http://{given}:{server.port}/"
        for host in ("127.0.0.1", "localhost", *(["0.0.0.0", "192.168.1.7"] if given == "0" else [])):
            assert ask(server, Host=f"{host}:{server.port}")[0].status == 200
        for host in ("evil.example", "127.0.0.1.evil.example", *(["192.168.1.7"] if given != "0" else [])):
            assert ask(server, Host=f"{host}:{server.port}")[0].status == 403


def test_an_address_of_version_6_in_another_spelling():
    try:
        server = PageServer(samples.page(), examine, "0:0:0:0:0:0:0:1", 0)
    except UserError:
        pytest.skip("this machine has no IPv6")
    with server:
        assert server.url == f"http://[0:0:0:0:0:0:0:1]:{server.port}/"
        assert server.access.refused_host("[0:0:0:0:0:0:0:1]:80", server.own_names) is None
        assert server.access.refused_host("[::2]:80", server.own_names)[0] == 403


def test_pages_of_others_are_refused(server):
    assert post(server, {"sentence": "Hallo"}, Origin="https://evil.example")[0] == 403
    assert post(server, {"sentence": "Hallo"}, Origin="null")[0] == 403
    assert post(server, {"sentence": "Hallo"}, Origin=f"http://127.0.0.1:{server.port}")[0] == 200
    # Another port is another page, and so is another scheme; a browser leaves out the usual port.
    own = f"127.0.0.1:{server.port}"
    for origin in ("http://127.0.0.1", f"http://localhost:{server.port}", f"https://{own}", f"ftp://{own}", own):
        assert post(server, {"sentence": "Hallo"}, Origin=origin)[0] == 403
    assert post(server, {"sentence": "Hallo"}, Host="localhost", Origin="http://localhost")[0] == 200
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
    lengths = [f"Content-Length: {size}\r\n" for size in ("x", -1, "9" * 5000)]
    for length in (*lengths, "", "Transfer-Encoding: chunked\r\n"):
        assert talk(server, f"{POST}{length}\r\n".encode()).startswith(b"HTTP/1.1 411")


def talk(server, data, wait=10):
    """What a server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_the_body_of_a_get_is_no_request(server):
    inner = b"GET /inner HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    outer = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    for header, body in (
        (f"Content-Length: {len(inner)}".encode(), inner),
        (b"Transfer-Encoding: chunked", b"%x\r\n" % len(inner) + inner + b"\r\n0\r\n\r\n"),
    ):
        answer = talk(server, outer + header + b"\r\n\r\n" + body)
        assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"POST /explore HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_request_has_to_arrive_in_time_as_a_whole(server, monkeypatch, begun):
    """A byte now and then does not keep it open."""
    monkeypatch.setattr(explore_server, "TIMEOUT", 0.5)
    headers = b"Content-Type: application/json\r\nContent-Length: 20000\r\n\r\n" if begun.startswith(b"POST") else b""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(begun + headers)
        with contextlib.suppress(ConnectionError):
            while not select.select([connection], [], [], 0.1)[0] and time.monotonic() - began < 5:
                connection.sendall(b"x")
    assert 0.4 < time.monotonic() - began < 3


def test_a_slow_answer_is_not_cut(server, monkeypatch):
    """Only what arrives is hurried, not the search."""
    monkeypatch.setattr(explore_server, "TIMEOUT", 0.3)
    monkeypatch.setattr(server, "_examine", lambda *both: (time.sleep(0.6), examine(*both))[1])
    assert post(server, {"sentence": "Hallo"})[0] == 200


@pytest.mark.parametrize(
    ("host", "message"),
    [
        *((host, "^the address to listen on is empty: give one, such as 127.0.0.1") for host in ("", " ")),
        *(
            (host, r"there is no such address\. Give another --host, such as 127\.0\.0\.1\.$")
            for host in ("ü..b", "ä" * 80, "a..b", "no-such-host.invalid")
        ),
        ("203.0.113.7", "^cannot listen on port {port} of 203.0.113.7"),
        ("127.0.0.1", "^cannot listen on port {port} of 127.0.0.1: .* Choose another"),
    ],
)
def test_where_it_cannot_listen(server, host, message):
    """The port is taken on this machine, to whose own address it listens alone."""
    assert server.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(UserError, match=message.format(port=server.port)):
        PageServer(samples.page(), examine, host, server.port)


def test_everywhere_is_answered_by_address():
    with PageServer(samples.page(), examine, "0.0.0.0", 0) as server:
        for host in ("192.168.1.7", "192.168.1.7:9000", "[fe80::1]:80", f"localhost:{server.port}"):
            assert server.access.refused_host(host, server.own_names) is None
        assert server.access.refused_host("evil.example:80", server.own_names)[0] == 403


AMBIGUOUS = {
    "no Host": "GET / HTTP/1.1\r\n\r\n",
    "two Hosts": f"GET / HTTP/1.1\r\n{HOST}{HOST}\r\n",
    "a second Host in other letters": f"GET / HTTP/1.1\r\n{HOST}hOST: evil.example\r\n\r\n",
    "two Origins": f"{POST}Origin: http://127.0.0.1\r\nOrigin: https://evil.example\r\n{LENGTH}\r\n{BODY}",
    "two lengths": f"{POST}{LENGTH}Content-Length: 5\r\n\r\n{BODY}",
    "two lengths that agree": f"{POST}{LENGTH}{LENGTH}\r\n{BODY}",
    "two types": f"{POST}Content-Type: text/plain\r\n{LENGTH}\r\n{BODY}",
    "two lengths of a GET": f"GET / HTTP/1.1\r\n{HOST}{LENGTH}{LENGTH}\r\n{BODY}",
    "chunks and a length": f"{POST}{LENGTH}Transfer-Encoding: chunked\r\n\r\n{BODY}",
    "chunks and a length of a GET": f"GET / HTTP/1.1\r\n{HOST}{LENGTH}Transfer-Encoding: chunked\r\n\r\n",
    "two encodings": f"{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a space before a colon": f"{POST}Content-Length : {len(BODY)}\r\n\r\n{BODY}",
    "a tab before a colon": f"GET / HTTP/1.1\r\n{HOST}Origin\t: x\r\n\r\n",
    "a space before a name": f"GET / HTTP/1.1\r\n Host: 127.0.0.1\r\n{HOST}\r\n",
    "a value that goes on": f"GET / HTTP/1.1\r\n{HOST}X-Other: a\r\n b\r\n\r\n",
    "a Host that goes on": "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n .evil.example\r\n\r\n",
    "no name": f"GET / HTTP/1.1\r\n{HOST}: a\r\n\r\n",
    "no colon": f"GET / HTTP/1.1\r\n{HOST}Origin\r\n\r\n",
    "a line of a mailbox": f"GET / HTTP/1.1\r\nFrom here\r\n{HOST}\r\n",
    "a line that ends in a line feed alone": f"GET / HTTP/1.1\r\n{HOST}X-Other: a\nHost: evil.example\r\n\r\n",
    "a carriage return inside a value": f"GET / HTTP/1.1\r\n{HOST}X-Other: a\rOrigin: https://evil.example\r\n\r\n",
    "a zero byte": f"GET / HTTP/1.1\r\n{HOST}X-Other: a\0b\r\n\r\n",
    "a whole address": f"GET http://127.0.0.1/ HTTP/1.1\r\n{HOST}\r\n",
    "the address of another": f"GET http://evil.example/ HTTP/1.1\r\n{HOST}\r\n",
    "a path without a slash": f"GET explore HTTP/1.1\r\n{HOST}\r\n",
    "two spaces": f"GET  / HTTP/1.1\r\n{HOST}\r\n",
    "a tab": f"GET\t/ HTTP/1.1\r\n{HOST}\r\n",
    "a form feed": f"GET /\x0cx HTTP/1.1\r\n{HOST}\r\n",
    "a line feed alone": f"GET / HTTP/1.1\n{HOST}\r\n",
    "an older version": "GET /\r\n\r\n",
    "another version": f"GET / HTTP/1.10\r\n{HOST}\r\n",
    "a letter of another script": f"GET /\xe4 HTTP/1.1\r\n{HOST}\r\n",
}


@pytest.mark.parametrize("request_", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_a_proxy_could_read_otherwise_is_refused(server, request_):
    answer = talk(server, request_.encode("latin-1"))
    head, _, content = answer.partition(b"\r\n\r\n")
    # One answer in words, and what follows is no further request.
    assert head.startswith(b"HTTP/1.1 400 ") and content.startswith(b'{"error"') and answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in head


def test_what_can_be_read_in_one_way_alone_is_answered(server):
    """Values hold any letters, spaces stand around them, and nothing needs a second header."""
    head = f"{POST}X-Other:\t a: b\t \xe4\r\nX-Empty:\r\nOrigin: http://127.0.0.1\r\n{LENGTH}"
    assert talk(server, f"{head}Connection: close\r\n\r\n{BODY}".encode("latin-1")).startswith(b"HTTP/1.1 200")
    two = f"GET / HTTP/1.1\r\n{HOST}\r\nGET / HTTP/1.0\r\n{HOST}\r\n"
    assert talk(server, two.encode()).count(b"HTTP/1.1 200") == 2


def test_a_body_that_ends_early_is_no_request(server):
    """It may read as a whole one."""
    body = b'{"sentence": "Hallo", "target": null}'
    head = f"{POST}Content-Length: {len(body) + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400") and f"ends after {len(body)} of {len(body) + 1} bytes".encode() in answer


def test_headers_have_a_largest_size(server):
    assert talk(server, f"GET / HTTP/1.1\r\n{HOST}X: {'a' * MOST_HEAD}\r\n\r\n".encode()).startswith(b"HTTP/1.1 431")
    many = "".join(f"X-{i}: a\r\n" for i in range(200))
    assert talk(server, f"GET / HTTP/1.1\r\n{HOST}{many}\r\n".encode()).startswith(b"HTTP/1.1 431")


@contextlib.contextmanager
def idle(server, count, begun=b""):
    """So many connections that bring no request, or the beginning of one."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10)))
            connections[-1].sendall(begun)
        yield connections


def rest_of(connection):
    """What is sent on a connection until it is closed."""
    return b"".join(iter(lambda: connection.recv(9999), b""))


@pytest.mark.parametrize("begun", ["", "GET / HTTP/1.1\r\nHost:", f"{POST}Content-Length: 100\r\n\r\n{{"])
def test_idle_connections_keep_nobody_out(server, begun, caplog):
    """More of them than there is room for: those that have waited longest make room."""
    server._said.clear()
    with idle(server, 40, begun.encode()) as connections:
        # None is closed for being late before this is done.
        assert ask(server)[0].status == 200
        assert post(server, {"sentence": "Hallo"})[0] == 200
        closed = select.select(connections, [], [], 0)[0]
        assert connections[0] in closed
        # Nobody is left without an answer, and whoever serves the page is told, once.
        for one in closed:
            answer = rest_of(one)
            assert answer.startswith(b"HTTP/1.1 503") and b"try again" in answer
    said = [message for message in caplog.messages if "connections are open" in message]
    assert len(said) == 1 and "\n" not in said[0]


@pytest.mark.parametrize("begun", ["GET / HTTP/1.1\r\nHost:", f"{POST}Content-Length: 100\r\n\r\n{{"])
def test_a_request_that_is_late_is_answered(server, monkeypatch, begun):
    monkeypatch.setattr(explore_server, "TIMEOUT", 0.2)
    with idle(server, 1, begun.encode()) as (late,):
        answer = rest_of(late)
    assert answer.startswith(b"HTTP/1.1 408") and answer.endswith(b'not arrived as a whole within 0.2 seconds."}')


def test_a_connection_that_a_browser_keeps_is_closed_without_an_answer(server, monkeypatch, caplog):
    """It would be taken for that to its next request."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(explore_server, "TIMEOUT", 0.2)
    with idle(server, 1) as (new,), idle(server, 1, f"GET / HTTP/1.1\r\n{HOST}\r\n".encode()) as (kept,):
        assert new.recv(9999) == b""
        answer = rest_of(kept)
    assert answer.startswith(b"HTTP/1.1 200") and b"HTTP/1.1 408" not in answer
    assert "a connection without a request was closed" in caplog.messages


def test_where_all_are_busy_another_one_is_told_to_wait(monkeypatch):
    monkeypatch.setattr(explore_server, "MOST_CONNECTIONS", 3)
    goes_on, statuses = threading.Event(), []

    def slow(sentence, target):
        goes_on.wait(10)
        return examine(sentence, target)

    with serving(PageServer(samples.page(), slow, port=0)) as few:
        asking = [
            threading.Thread(target=lambda: statuses.append(post(few, {"sentence": "Hallo"})[0])) for _ in range(3)
        ]
        for one in asking:
            one.start()
        end = time.monotonic() + 10
        while few._free._value or few._waiting:
            assert time.monotonic() < end
            time.sleep(0.01)
        for _ in range(2):
            answer, content = ask(few)
            assert answer.status == 503 and b"try again" in content and answer.headers["Retry-After"]
        goes_on.set()
        for one in asking:
            one.join()
        # Nobody was cut off, and there is room again.
        assert statuses == [200] * 3
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with contextlib.suppress(http.client.HTTPException, OSError):
                if ask(few)[0].status == 200:
                    break
        else:
            pytest.fail("no room was made")
