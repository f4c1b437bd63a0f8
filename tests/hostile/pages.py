"""Hostile requests to the served page: names of others, requests that are read in two ways, bodies, slow senders."""

import contextlib
import http.client
import json
import socket
import sys
import threading
import time

from keras_attn_zoo.support.errors import UserError
from tests.hostile.judging import Case

# Seconds for an answer; a request that never ends is cut by the server before.
PATIENCE = 15
# As with --allow-host and --base-path.
PROXY, BASE = "proxy.example", "/proxy/8000/"
GOOD = b'{"sentence": "rot haus", "target": null}'
STRANGE_HOSTS = (
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "10.0.0.1",
    "",
    "a b",
    "[::2]",
    "@",
)
OWN_HOSTS = ("localhost", "127.0.0.1:9", "LOCALHOST:65535", "[::1]:80")
STRANGE_ORIGINS = ("http://evil.example", "null", "https://127.0.0.1", "file://", "http://127.0.0.1.evil.example")
BODIES = (
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b'{"sentence": 1}', b'{"sentence": ["rot"], "target": null}'),
    *(b'{"sentence": "rot", "target": 2}', b'{"sentence": "\\ud800", "target": null}', b"\xff\xfe{}", b"[" * 15_000),
    *(b'{"sentence": "rot"} {}', b'{"sentence": NaN}'),
)
PATHS = (
    "/x",
    "/../etc/passwd",
    "/%2e%2e/etc/passwd",
    "/explore/..",
    "/.git/config",
    "/favicon.ico",
    "/explore%00",
)


def request(method=b"GET", path=b"/", headers=(), body=b"", host=b"localhost", length=None):
    """The bytes of a request."""
    lines = [b"%s %s HTTP/1.1" % (method, path), *([b"Host: " + host] if host is not None else []), *headers]
    if method == b"POST":
        lines += [b"Content-Type: application/json"] if not any(b"Content-Type" in one for one in headers) else []
        lines += [b"Content-Length: %d" % (len(body) if length is None else length)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _post(**options):
    return request(**{"method": b"POST", "path": b"/explore", "body": GOOD, **options})


def page(rng):
    """One request to the served page; afterwards a good one must be answered, and nothing else may have been sent."""
    kind = rng.choice(sorted(KINDS))
    expect, make = KINDS[kind]
    sent, behind = make(rng), kind.startswith("proxy") or rng.random() < 0.3
    case = {"sent": sent.decode("latin-1"), "behind": behind, "slow": rng.choice((0, 0, 0, 5, 40))}
    return Case(
        "served page",
        f"{kind}: {sent[:60]!r}, {case['slow']} slow clients{', behind a proxy' if behind else ''}",
        [],
        program="served page",
        expect=expect,
        stdin=json.dumps(case).encode(),
    )


def _twice(rng):
    name = rng.choice((b"Host: localhost", b"Origin: http://localhost", b"Content-Length: 40", b"Content-Type: a/b"))
    return _post(headers=[name, name])


def _folded(rng):
    line = (b"X: a\r\n b", b"X : a", b"X: a\nY: b", b"\tX: a", b"X", b"X\x00: a", b"X: \x00", b": a")
    return _post(headers=[rng.choice(line)])


def _no_request(rng):
    lines = (b"GET", b"GET /", b"GET / HTTP/9.9", b"get / HTTP/1.1", b"\x16\x03\x01\x02\x00", b"GET  / HTTP/1.1")
    return rng.choice((*lines, b"GET http://localhost/ HTTP/1.1", b"PUT / HTTP/1.1", b"\r\n" * 9)) + b"\r\n\r\n"


def _any(rng):
    sent = bytearray(_post())
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(sent))
        sent[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(sent)


KINDS = {
    "good page": (
        "accept",
        lambda rng: request(path=rng.choice((b"/", b"/?x=1")), host=rng.choice(OWN_HOSTS).encode()),
    ),
    "good sentence": ("accept", lambda rng: _post(host=rng.choice(OWN_HOSTS).encode())),
    "strange host": ("refuse", lambda rng: rng.choice((request, _post))(host=rng.choice(STRANGE_HOSTS).encode())),
    "no host": ("refuse", lambda rng: rng.choice((request, _post))(host=None)),
    "strange origin": ("refuse", lambda rng: _post(headers=[b"Origin: " + rng.choice(STRANGE_ORIGINS).encode()])),
    "header twice": ("refuse", _twice),
    "header of no form": ("refuse", _folded),
    "two lengths": ("refuse", lambda rng: _post(headers=[b"Transfer-Encoding: chunked"])),
    "strange length": (
        "refuse",
        lambda rng: _post().replace(b"Length: 40", b"Length: " + rng.choice((b"-1", b"1e9", b"9" * 5000, b"+5", b""))),
    ),
    "large": ("refuse", lambda rng: _post(body=b'{"sentence": "' + b"x" * rng.choice((20_001, 2**20)) + b'"}')),
    "large head": ("refuse", lambda rng: _post(headers=[b"X: " + b"x" * 60_000, b"Y: " + b"y" * 60_000])),
    "bad body": ("refuse", lambda rng: _post(body=rng.choice(BODIES))),
    "strange kind": ("refuse", lambda rng: _post(headers=[b"Content-Type: " + rng.choice((b"text/plain", b"a", b""))])),
    "strange path": ("refuse", lambda rng: request(path=rng.choice(PATHS).encode())),
    "no request": ("refuse", _no_request),
    "more than it says": ("accept", lambda rng: _post() + rng.randbytes(50)),
    "less than it says": ("refuse", lambda rng: _post(length=len(GOOD) + 1)),
    "proxy": ("accept", lambda rng: request(path=rng.choice((BASE, f"{BASE}?x=1", "/")).encode(), host=PROXY.encode())),
    "proxy's sentence": (
        "accept",
        lambda rng: _post(
            path=rng.choice((BASE, "/")).encode() + b"explore",
            host=PROXY.encode(),
            headers=[b"Origin: https://" + PROXY.encode()],
        ),
    ),
    "proxy's strange path": (
        "refuse",
        lambda rng: request(path=rng.choice((f"{BASE}x", f"{BASE}../explore", f"/x{BASE}")).encode()),
    ),
    "proxy's strange host": (
        "refuse",
        lambda rng: _post(host=rng.choice((f"x.{PROXY}", f"{PROXY}.x", f"x@{PROXY}", f"{PROXY},{PROXY}")).encode()),
    ),
    "any": ("either", _any),
}


@contextlib.contextmanager
def _served(behind):
    """Serve a page; behind a proxy of another name, with a path of its own."""
    from keras_attn_zoo.viewing.page import Page
    from keras_attn_zoo.viewing.page_access import Access
    from keras_attn_zoo.viewing.page_server import PageServer
    from tests.viewing import samples

    def examine(sentence, target):
        one = samples.sentence(gold=None)
        shown = type(one)(sentence, one.words)
        return Page([samples.system()], [shown], [[samples.result(given=target is not None)]])

    access = Access([PROXY], BASE) if behind else None
    with PageServer(samples.page(), examine, port=0, access=access) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(options):
    """Send the case's bytes; raise what the server refuses, and whatever else it does."""
    case = json.load(sys.stdin)
    sent = case["sent"].encode("latin-1")
    with _served(case["behind"]) as server, contextlib.ExitStack() as slow:
        for number in range(case["slow"]):
            one = slow.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE))
            one.sendall(_post()[: number * 7])
        status, said = _answer(server, sent)
        # Whatever it was, the next one is answered.
        began = time.monotonic()
        after, _ = _answer(server, _post())
        if after != 200 or time.monotonic() - began > 2:
            raise RuntimeError(f"after that, the server answers a good request with {after}")
    if status == 200:
        print(f"{len(said)} bytes")
        return
    try:
        reason = json.loads(said)["error"]
    except (ValueError, KeyError):
        raise RuntimeError(f"status {status} without a reason: {said[:80]!r}") from None
    # 501 is for methods that no page has.
    if status in (500, 503) or "\n" in reason:
        raise RuntimeError(f"status {status}: {reason}")
    raise UserError(reason)


def _answer(server, sent):
    """Status and body of the answer to some bytes, after which nothing more is sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        # A server that has refused what it has not read yet ends the connection.
        with contextlib.suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection)
        try:
            answer.begin()
            return answer.status, answer.read()
        except (http.client.HTTPException, ConnectionError):
            # What never became a request is cut without a word.
            return 400, b'{"error": "the connection was cut."}'
