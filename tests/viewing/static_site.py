"""A web server of files, as any static host is one."""

import contextlib
import functools
import http.server
import threading


class _Handler(http.server.SimpleHTTPRequestHandler):
    headers_of_all: dict[str, str] = {}
    asked: list[str]

    def parse_request(self):
        understood = super().parse_request()
        self.asked.append(self.requestline)
        return understood

    def end_headers(self):
        for name, value in self.headers_of_all.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format, *arguments):
        pass


@contextlib.contextmanager
def site(folder, asked=None, **headers):
    """Serve a folder; yield its address. The first line of every request is appended to a list that is given."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    known = {"headers_of_all": {"Cache-Control": "no-cache", **named}, "asked": [] if asked is None else asked}
    handler = type("Handler", (_Handler,), known)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
