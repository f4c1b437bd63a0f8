"""The page with live input, served by Python's own server."""

import contextlib
import http.server
import io
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.explore.packing import pack, safe_json
from keras_attn_zoo.explore.page import Page
from keras_attn_zoo.files import reason_of, shown

_LOG = logging.getLogger(__name__)
# The largest request: two sentences.
MOST_BYTES = 20_000
# Seconds in which a request has to arrive as a whole, and in which an answer has to be taken.
TIMEOUT = 10
PATIENCE = 60
# Connections at a time; a browser opens six.
MOST_CONNECTIONS = 32
_USUAL_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer(http.server.ThreadingHTTPServer):
    """A server of one page, and of what it asks for: `GET /` and `POST /explore`.

    It reads no file. A request that names another host than the one it listens on is refused, so that no site can
    reach it through a name of its own; sentences come as JSON, which no form of another site can send.

    Args:
        page: the page.
        examine: function of a sentence and a translation, or None, to a `Page` of that sentence; bad input raises
            `UserError`.
        host: address to listen on.
        port: port to listen on; 0 for a free one.

    Raises:
        UserError: the port is taken or unavailable; no such address, or an empty one.

    Example:
        >>> PageServer(page, translator.explore).serve_forever()  # doctest: +SKIP
    """

    daemon_threads = True
    # A server that was just stopped may be started again at once; Windows would share a port that is in use.
    allow_reuse_address, allow_reuse_port = os.name != "nt", False

    def __init__(
        self, page: Page, examine: Callable[[str, str | None], Page], host: str = "127.0.0.1", port: int = 8000
    ) -> None:
        if not host.strip():
            raise UserError("the address to listen on is empty: give one, such as 127.0.0.1, or 0.0.0.0 for all.")
        self.page, self._examine, self._one_at_a_time = page.html(live=True).encode(), examine, threading.Lock()
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (socket.gaierror, TypeError, UnicodeError):
            # The last two are raised of names that IDNA refuses.
            raise UserError(
                f"cannot listen on {shown(host)}: there is no such address. Give another --host, such as 127.0.0.1."
            ) from None
        except (OSError, OverflowError) as error:
            raise UserError(
                f"cannot listen on port {port} of {shown(host)}: {reason_of(error)}. Choose another one with --port; 0 "
                "picks a free one."
            ) from None
        self.host, self.port = host, self.server_address[1]
        # A browser asks for the address that it reads in an unusual spelling: for 127.0.0.1 where it is given 127.1.
        self._address = str(self.server_address[0])

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def allows(self, host: str | None) -> bool:
        """Whether a `Host` header names this server."""
        name = (host or "").strip().lower()
        before, _, port = name.rpartition(":")
        if _is_number(port):
            if int(port) != self.port:
                return False
            name = before
        names = {self.host.lower(), self._address, *(_LOOPBACK if self._address in _LOOPBACK else ())}
        if self._address in ("0.0.0.0", "::"):
            # Asked to listen everywhere: by addresses alone, which no site's name turns into.
            return name in _LOOPBACK or _is_address(name.strip("[]"))
        return name.strip("[]") in names

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are already there."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for another connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def examine(self, sentence: str, target: str | None) -> str:
        """Return the JSON of a sentence."""
        with self._one_at_a_time:
            page = self._examine(sentence, target)
        return pack(page.systems, page.sentences, page.results)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""


class _Arriving(io.RawIOBase):
    """What arrives on a connection until a deadline; a timeout of the socket alone would begin anew with every byte."""

    def __init__(self, connection):
        self._connection, self.deadline = connection, 0.0

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "attn-zoo", ""
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self._arriving = _Arriving(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self):
        self._arriving.deadline = time.monotonic() + TIMEOUT
        super().handle_one_request()

    def do_GET(self):
        self._get(body=True)

    def do_HEAD(self):
        self._get(body=False)

    def _get(self, body):
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # What is not read would be taken for the next request.
            self.close_connection = True
        if not self._is_for_here():
            self._fail(403, "this server answers to its own address alone.")
        elif self.path != "/":
            self._fail(404, "there is nothing here; the page is at /.")
        else:
            self._send(200, self.server.page, "text/html; charset=utf-8", body)

    def _is_for_here(self):
        hosts = self.headers.get_all("Host", [])
        return len(hosts) == 1 and self.server.allows(hosts[0])

    def do_POST(self):
        if not self._is_for_here():
            return self._fail(403, "this server answers to its own address alone.")
        if self.path != "/explore":
            return self._fail(404, "there is nothing here.")
        origin = self.headers.get("Origin")
        if origin is not None and not self.server.allows(_with_port(origin)):
            return self._fail(403, "this server answers to its own page alone.")
        if self.headers.get_content_type() != "application/json":
            return self._fail(415, "send JSON.")
        length = self.headers.get("Content-Length", "")
        if not _is_number(length) or self.headers.get("Transfer-Encoding"):
            return self._fail(411, "say how long the request is.")
        if int(length) > MOST_BYTES:
            return self._fail(413, f"a request has at most {MOST_BYTES:,} bytes: shorten the sentence.")
        body = self.rfile.read(int(length))
        try:
            sentence, target = _read(body)
            answer = self.server.examine(sentence, target)
        except UserError as error:
            # It is read where a command serves the page.
            return self._fail(400, error.for_shell)
        except Exception as error:
            _LOG.warning("a sentence could not be explored: %s", error)
            return self._fail(500, "this sentence could not be explored; the terminal says why.")
        return self._send(200, answer.encode(), "application/json; charset=utf-8")

    def _fail(self, status, message):
        # What was not read would be taken for the next request.
        self.close_connection = True
        self._send(status, safe_json({"error": message}).encode(), "application/json; charset=utf-8")

    def _send(self, status, content, kind, body=True):
        self.connection.settimeout(PATIENCE)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format, *arguments):
        _LOG.debug(format, *arguments)


def _read(body):
    """Sentence and translation of a request."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not JSON.") from None
    sentence, target = (request.get(name) for name in ("sentence", "target")) if isinstance(request, dict) else (0, 0)
    if not isinstance(sentence, str) or not (target is None or isinstance(target, str)):
        raise UserError("a request has a sentence, and a target that is text or null.")
    try:
        f"{sentence}{target}".encode()
    except UnicodeEncodeError:
        raise UserError("the sentence is not valid Unicode.") from None
    return sentence, target


def _with_port(origin):
    """The host of an origin, with its port: a browser leaves out the usual one."""
    scheme, _, host = origin.partition("://")
    return host if _is_number(host.rpartition(":")[2]) else f"{host}:{_USUAL_PORTS.get(scheme, 0)}"


def _is_number(text):
    """Whether `int` reads it as a size or a port: it takes other scripts' digits too, and no thousands of them."""
    return text.isascii() and text.isdecimal() and len(text) < 10


def _is_address(name):
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, name)
            return True
    return False


@contextlib.contextmanager
def serving(server: PageServer) -> Iterator[PageServer]:
    """Serve in a thread while the context lasts.

    Example:
        >>> with serving(PageServer(page, examine, port=0)) as server:  # doctest: +SKIP
        ...     print(server.url)
    """
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
