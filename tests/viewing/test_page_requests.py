"""Requests that could be read in two ways, and connections that bring none."""

import contextlib
import http.client
import logging
import select
import socket
import threading
import time

import pytest

from keras_attn_zoo.viewing import page_server as explore_server
from keras_attn_zoo.viewing.page_server import MOST_HEAD, PageServer, serving
from tests.viewing import samples
from tests.viewing.test_page_server import ask, examine, post, talk

HOST = "Host: 127.0.0.1\r\n"
POST = f"POST /explore HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
BODY = '{"sentence": "Hallo"}'
LENGTH = f"Content-Length: {len(BODY)}\r\n"


@pytest.fixture(scope="module")
def server():
    with serving(PageServer(samples.page(), examine, port=0)) as server:
        yield server


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
    head = f"POST /explore HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: {len(body) + 1}\r\n\r\n"
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
