"""Chromium without a window, driven over a pipe by its DevTools protocol: no library, no port."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe"),
)
# What a pipe's ends are moved to, where Chromium expects them.
MOVE = """
import fcntl, os, sys
for place, number in ((3, sys.argv[1]), (4, sys.argv[2])):
    sys.argv[place - 2] = fcntl.fcntl(int(number), fcntl.F_DUPFD, 10)
for place in (3, 4):
    os.dup2(sys.argv[place - 2], place)
os.execvp(sys.argv[3], sys.argv[3:])
"""
# Windows' codes of keys that are no letters.
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36}
KEYS |= {f"Arrow{side}": code for code, side in enumerate(("Left", "Up", "Right", "Down"), start=37)}
TIMEOUT = 60


def executable():
    """Where Chromium is, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        command = [executable(), *FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", MOVE, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        # Whatever the page complained of: errors, exceptions, what its policy refused.
        self.complaints = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError, RuntimeError):
            self._session = None
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def send(self, method, **parameters):
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self):
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError("Chromium does not answer")
            data = os.read(self._read, 2**20)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        event = json.loads(message)
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([one.get("value") for one in parameters["args"]]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        return event

    def run(self, script):
        """The value of an expression; promises are awaited."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", "exception"))
        return found["result"].get("value")

    def open(self, address, width=1200, height=900, dark=False, touch=False):
        """Open a file or an address, and wait until the page is there."""
        self.size(width, height, touch)
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.complaints.clear()
        self.send("Page.navigate", url=Path(address).as_uri() if isinstance(address, Path) else address)
        self.wait("document.documentElement.dataset.ready === 'yes'")

    @contextlib.contextmanager
    def frame(self, address):
        """While the context lasts, run expressions in the frame of another site at an address."""
        page, self._session = self._session, None
        try:
            end = time.monotonic() + TIMEOUT
            while not (found := self._targets(address)):
                if time.monotonic() > end:
                    raise AssertionError(f"there is no frame of {address}")
                time.sleep(0.02)
            self._session = self.send("Target.attachToTarget", targetId=found[0], flatten=True)["sessionId"]
            yield
        finally:
            self._session = page

    def _targets(self, address):
        targets = self.send("Target.getTargets")["targetInfos"]
        return [one["targetId"] for one in targets if one["type"] == "iframe" and one["url"].startswith(address)]

    def size(self, width, height, touch=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.send("Emulation.setTouchEmulationEnabled", enabled=touch)

    def wait(self, condition):
        """Wait until an expression is true."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):
                if self.run(condition):
                    return
            time.sleep(0.02)
        raise AssertionError(f"never true: {condition}; complaints: {self.complaints}")

    def key(self, key, text=None):
        code = KEYS.get(key, ord(key[0].upper()))
        text = text or (key if len(key) == 1 else "\r" if key == "Enter" else None)
        down = {"type": "keyDown" if text else "rawKeyDown", "key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", **down, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def middle(self, element):
        """Where the middle of an element is, an expression."""
        return self.run(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center', inline: 'center'}}); "
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )

    def hover(self, element):
        x, y = self.middle(element)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, element):
        x, y = self.middle(element)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, element):
        x, y = self.middle(element)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, path, full=True):
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(found["data"]))

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
