"""The page with live input, served by Python's own server."""

import contextlib
import http.server
import io
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import reason_of, shown
from keras_attn_zoo.viewing.page import Page
from keras_attn_zoo.viewing.page_access import Access
from keras_attn_zoo.viewing.page_packing import pack, safe_json

_LOG = logging.getLogger(__name__)
CROWDED = "too many sentences or connections are waiting: try again in a moment."
# The largest request: two sentences, and what is said before them.
MOST_BYTES = 20_000
MOST_HEAD = 2**16
# Seconds in which a request has to arrive as a whole, and in which an answer has to be taken.
TIMEOUT = 10
PATIENCE = 60
# Connections at a time; a browser opens six.
MOST_CONNECTIONS = 32
# Seconds for one that was closed to make room, and for a request that is turned away to arrive.
_MOMENT = 0.5
# Refusals that are logged: a site could ask under one name after the other.
_MOST_SAID = 20
# As the standard has them: what differs, a proxy and this server could read in different ways.
_REQUEST_LINE = re.compile(rb"[A-Z]+ /[!-~]* HTTP/1\.[01]\r\n")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n")
_ONCE = ("Host", "Origin", "Content-Length", "Content-Type", "Transfer-Encoding")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class NotArrived(Exception):
    """A request that is not there in time, or whose connection is needed by others: status and message of an answer."""


class Arriving(io.RawIOBase):
    """What arrives on a connection until a deadline; a timeout of the socket alone would begin anew with every byte.

    A connection may have given way to others.

    Attributes:
        begun: whether anything of the present request has arrived.
    """

    def __init__(self, connection: socket.socket, was_displaced: Callable[[socket.socket], bool]) -> None:
        self._connection, self._was_displaced = connection, was_displaced
        self.begin(0)

    def begin(self, seconds: float) -> None:
        """Wait so long for another request."""
        self._seconds, self._deadline, self.begun = seconds, time.monotonic() + seconds, False

    def readable(self) -> bool:
        """Return that it can be read, as the base class asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, or wait for it; raise `NotArrived` if it is late, or the connection gave way."""
        late = NotArrived(408, f"the request has not arrived as a whole within {self._seconds} seconds.")
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise late
        self._connection.settimeout(left)
        try:
            count = self._connection.recv_into(buffer)
        except TimeoutError:
            raise late from None
        if not count and self._was_displaced(self._connection):
            raise NotArrived(503, CROWDED)
        self.begun = True
        return count


class PageServer(http.server.ThreadingHTTPServer):
    """A server of one page, and of what it asks for: `GET /` and `POST /explore`.

    It reads no file. It answers to its own address and to names of this machine, so that no site can reach it through a
    name of its own; sentences come from the page itself, as JSON, which no form of another site can send. `Access` says
    what else is permitted. Whatever is refused is told in a line, which says how to permit it.

    Args:
        page: the page.
        examine: function of a sentence and a translation, or None, to a `Page` of that sentence; bad input raises
            `UserError`.
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        access: further names, the path before that of the page, and pages that may show it in a frame; None for none.

    Raises:
        UserError: the port is taken or unavailable; no such address, or an empty one.

    Example:
        >>> PageServer(page, translator.explore).serve_forever()  # doctest: +SKIP
    """

    daemon_threads = True
    # Connections that the system keeps until they are accepted; of more than five at once, others would wait seconds.
    request_queue_size = 128
    # A server that was just stopped may be started again at once; Windows would share a port that is in use.
    allow_reuse_address, allow_reuse_port = os.name != "nt", False

    def __init__(
        self,
        page: Page,
        examine: Callable[[str, str | None], Page],
        host: str = "127.0.0.1",
        port: int = 8000,
        access: Access | None = None,
    ) -> None:
        if not host.strip():
            raise UserError("the address to listen on is empty: give one, such as 127.0.0.1, or 0.0.0.0 for all.")
        self.page, self._examine, self._one_at_a_time = page.html(live=True).encode(), examine, threading.Lock()
        self.access = access or Access()
        frames, older = self.access.frame_headers()
        self.page_headers = {"Content-Security-Policy": f"{page.policy(live=True)}; {frames}", **older}
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        # Connections whose request is not there yet, those that have waited longest first.
        self._waiting: dict[Any, None] = {}
        self._was_displaced: set[Any] = set()
        self._of_waiting = threading.Lock()
        self._said: set[str] = set()
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
        address = str(self.server_address[0])
        self.own_names = None if address in ("0.0.0.0", "::") else {host.lower(), address}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; where too many are there, in place of one that waits, or not now."""
        if not self._free.acquire(blocking=False) and not self._make_room():
            self._turn_away(request)
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
            self.has_arrived(request)
            self._was_displaced.discard(request)
            self._free.release()

    def was_displaced(self, connection: Any) -> bool:
        """Return whether a connection that waited for its request was closed for others."""
        return connection in self._was_displaced

    def awaits(self, connection: Any) -> None:
        """Let a connection be closed if others want its place, until its request has arrived."""
        with self._of_waiting:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def has_arrived(self, connection: Any) -> None:
        """Keep a connection until its request is answered."""
        with self._of_waiting:
            self._waiting.pop(connection, None)

    def _make_room(self):
        """Close the connection that has waited longest for a request; return whether there is room."""
        with self._of_waiting:
            oldest = next(iter(self._waiting), None)
            if oldest is None:
                return False
            del self._waiting[oldest]
            self._was_displaced.add(oldest)
            # What has arrived is still answered.
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RD)
        self.say(f"{MOST_CONNECTIONS} connections are open: of those that wait for a request, the oldest are closed")
        return self._free.acquire(timeout=_MOMENT)

    def _turn_away(self, request):
        content = safe_json({"error": CROWDED}).encode()
        head = f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: {len(content)}\r\n"
        head += "Content-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n"
        with contextlib.suppress(OSError):
            request.settimeout(_MOMENT)
            # Where something is left unread, the system cuts the connection before the answer is read.
            request.recv(MOST_HEAD)
            request.sendall(head.encode() + content)
        self.shutdown_request(request)

    def examine(self, sentence: str, target: str | None) -> str:
        """Return the JSON of a sentence."""
        with self._one_at_a_time:
            page = self._examine(sentence, target)
        return pack(page.systems, page.sentences, page.results)

    def say(self, message: str) -> None:
        """Log a refusal, once."""
        if message not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(message)
            _LOG.warning("%s", message)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "attn-zoo", ""
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self._arriving = Arriving(self.connection, self.server.was_displaced)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self):
        self.command, self.request_version, self.requestline = None, self.protocol_version, ""
        self._arriving.begin(TIMEOUT)
        self.server.awaits(self.connection)
        try:
            super().handle_one_request()
        except NotArrived as reason:
            status, message = reason.args
            if self._arriving.begun or status != 408:
                self._fail(status, message)
            else:
                # Browsers open connections in advance, and keep them.
                self.log_message("a connection without a request was closed")
                self.close_connection = True

    def parse_request(self):
        """Read the head of a request, if there is only one way to read it."""
        if not _REQUEST_LINE.fullmatch(self.raw_requestline):
            return self._fail(400, "the request does not begin with a method, a path and HTTP/1.1.")
        head = b""
        while not head.endswith(b"\r\n\r\n") and head != b"\r\n":
            line = self.rfile.readline(MOST_HEAD)
            head += line
            if len(head) > MOST_HEAD:
                return self._fail(431, f"a request has at most {MOST_HEAD:,} bytes of headers.")
            if line != b"\r\n" and not _HEADER.fullmatch(line):
                return self._fail(400, "a header of the request is not a name, a colon and a value in one line.")
        rest, self.rfile = self.rfile, io.BytesIO(head)
        try:
            if not super().parse_request():
                return False
        finally:
            self.rfile = rest
        twice = next((name for name in _ONCE if len(self.headers.get_all(name, [])) > 1), None)
        if twice is not None:
            return self._fail(400, f"the request has two headers {twice}.")
        if "Content-Length" in self.headers and "Transfer-Encoding" in self.headers:
            return self._fail(400, "the request says in two ways how long it is.")
        return True

    def send_error(self, code, message=None, explain=None):
        """Say in our own form what the base class refuses."""
        self._fail(code, f"{message or 'this is not possible'}.")

    def do_GET(self):
        self._get(body=True)

    def do_HEAD(self):
        self._get(body=False)

    def _get(self, body):
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # What is not read would be taken for the next request.
            self.close_connection = True
        if self._is_refused(self.server.access.refused_host(self.headers.get("Host", ""), self.server.own_names)):
            return
        found = self.server.access.route(self.path)
        if found is None or found == "explore":
            self._refuse(*self.server.access.nothing_at(self.path))
        elif found:
            self._send(308, b"", "text/plain", headers={"Location": found})
        elif not self._is_refused(self.server.access.refused_frame(self.headers)):
            self._send(200, self.server.page, "text/html; charset=utf-8", body, self.server.page_headers)

    def _is_refused(self, refusal):
        """Whether there is a refusal; then it is sent."""
        if refusal is not None:
            self._refuse(*refusal)
        return refusal is not None

    def _refuse(self, status, message):
        """Refuse what an option may permit: it is said where the server runs too."""
        self.server.say(message)
        self._fail(status, message)

    def do_POST(self):
        access, host = self.server.access, self.headers.get("Host", "")
        if self._is_refused(access.refused_host(host, self.server.own_names)):
            return None
        if access.route(self.path) != "explore":
            return self._refuse(*access.nothing_at(self.path))
        origin = self.headers.get("Origin")
        if origin is not None and self._is_refused(access.refused_origin(origin, host)):
            return None
        if self.headers.get_content_type() != "application/json":
            return self._fail(415, "send JSON.")
        length = self.headers.get("Content-Length", "")
        if not _is_number(length) or self.headers.get("Transfer-Encoding"):
            return self._fail(411, "say how long the request is.")
        if int(length) > MOST_BYTES:
            return self._fail(413, f"a request has at most {MOST_BYTES:,} bytes: shorten the sentence.")
        body = self.rfile.read(int(length))
        self.server.has_arrived(self.connection)
        if len(body) < int(length):
            return self._fail(400, f"the request ends after {len(body)} of {length} bytes.")
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
        return False

    def _send(self, status, content, kind, body=True, headers=None):
        self.server.has_arrived(self.connection)
        self.connection.settimeout(PATIENCE)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        # What is not the page may stand in any frame, so that a refusal is read there too.
        for name, value in {"Content-Security-Policy": "default-src 'none'", **_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format, *arguments):
        _LOG.debug(format, *arguments)


def _read(body):
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


def _is_number(text):
    """Whether `int` reads it as a size or a port: it takes other scripts' digits too, and no thousands of them."""
    return text.isascii() and text.isdecimal() and len(text) < 10


@contextlib.contextmanager
def serving(server: PageServer) -> Iterator[PageServer]:
    """Serve in a thread while the context lasts."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
