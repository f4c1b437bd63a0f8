"""Downloads over HTTP that resume after a broken connection and are checked before use."""

import hashlib
import http.client
import logging
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from keras_attn_zoo.support.checksums import sha256
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import kind_of, write_failed
from keras_attn_zoo.support.types import FileRecord

_LOG = logging.getLogger(__name__)
# Seconds within which a server must send something.
PATIENCE = 20.0
# Consecutive attempts without progress, and the seconds before the second one; the wait then doubles each time.
ATTEMPTS = 4
PAUSE = 1.0
_CHUNK = 2**16
# An attempt makes progress if it brings this part of a file.
_STEPS = 100
# Seconds of silence that a fetch with a deadline bears.
_HURRY = 5.0
# How many times its patience a server may take until all headers are there, those of redirects included.
_OPENING = 3
_LONGEST_REASON = 200
_OTHER = "Try again later, or check the network: a proxy may have sent a different file."
_MOVED = "It may have moved: pip install --upgrade keras-attn-zoo, or put the file in place by hand."


class DownloadError(UserError):
    """A file that a server does not send: no network, no such file, or a different one."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to servers, but not from an encrypted connection to an open one."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        found = urllib.parse.urlsplit(newurl).scheme
        if found != "https" and (found != "http" or req.type == "https"):
            raise DownloadError(
                f"cannot download {req.full_url}: the server redirects to {_plain(newurl)}, which is not safe. {_OTHER}"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_files(
    folder: Path,
    files: Mapping[str, FileRecord],
    address_of: Callable[[str], str],
    progress: Callable[[int], None] | None = None,
    deadline: float | None = None,
) -> None:
    """Download files to a folder; what an earlier attempt left there is kept or completed.

    Args:
        folder: the folder; names may include subfolders.
        files: `{name: {"size": bytes, "sha256": digits}}`.
        address_of: function that takes a name and returns its address.
        progress: function called with the number of bytes so far.
        deadline: where someone waits: the `time.monotonic()` at which the download is given up. No attempt is then
            repeated.

    Raises:
        DownloadError: no network; no such file; a server that keeps breaking off, or sends a different file.
        UserError: a full disk.
    """
    for name, record, report in _in_turn(files, progress):
        _fetch_file(address_of(name), folder / name, record, report, deadline)


def remote_faults(
    files: Mapping[str, FileRecord], address_of: Callable[[str], str], progress: Callable[[int], None] | None = None
) -> dict[str, str]:
    """Return what is wrong with files on a server, by name: missing, cut or altered. They are read and not stored.

    See `fetch_files` for the arguments.

    Raises:
        DownloadError: no network; a server that fails or keeps breaking off.
    """
    found = {name: _fault(address_of(name), record, report) for name, record, report in _in_turn(files, progress)}
    return {name: fault for name, fault in found.items() if fault}


def fetch_small(address: str, most: int) -> bytes | None:
    """Return what a server has at an address, of at most so many bytes; None if it has nothing there.

    Raises:
        DownloadError: no network; a server that fails, or sends more.
    """

    def ask():
        try:
            with _open(_request(address), PATIENCE) as answer:
                data = answer.read(most + 1)
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise
        if len(data) > most:
            raise _other_file(address, f"more than {most:,} bytes")
        return data

    return _retried(address, ask)


def _in_turn(files, progress):
    """Yield each file with a function that reports its bytes, after those of the files before it."""
    there = 0
    for name, record in files.items():
        yield name, record, (lambda size, before=there: progress(before + size)) if progress else None
        there += record["size"]


def _fault(address, record, progress):
    """What is wrong with a file on a server; empty if it is the published one."""

    def compare():
        size, digest, done = record["size"], hashlib.sha256(), 0
        try:
            answer = _open(_request(address), PATIENCE)
        except urllib.error.HTTPError as error:
            if not _is_final(error):
                raise
            return f"missing: {_said(error)}"
        with answer:
            while done <= size and (chunk := answer.read1(_CHUNK)):
                digest.update(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done)
        if done < min(size, _announced(answer) or 0):
            raise ConnectionError("the connection ended early")
        if done < size:
            return f"cut: {done:,} of {size:,} bytes"
        if done > size:
            return f"altered: more than {size:,} bytes"
        found = digest.hexdigest()
        if found == record["sha256"]:
            return ""
        return f"altered: its SHA-256 is {found[:12]}..., not {record['sha256'][:12]}..."

    return _retried(address, compare)


def _announced(answer):
    """The bytes that a server says it sends, or None."""
    length = answer.headers.get("Content-Length") or ""
    return int(length) if length.isdecimal() else None


def _request(address, method="GET"):
    """A request for a file as it is, so that its size is the one that the server says."""
    return urllib.request.Request(address, headers={"Accept-Encoding": "identity"}, method=method)


def _fetch_file(address, path, record, progress, deadline):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An earlier attempt may have left part of a different file: then start over, once.
        begun = path.exists()
        _complete(address, path, record["size"], progress, deadline)
        if begun and sha256(path) != record["sha256"]:
            path.unlink()
            _complete(address, path, record["size"], progress, deadline)
        found = sha256(path)
        if found == record["sha256"]:
            return
        path.unlink()
    except OSError as error:
        raise write_failed(path, error) from None
    raise DownloadError(
        f"{address} is not the file that was published: its SHA-256 is {found[:12]}..., not "
        f"{record['sha256'][:12]}.... {_OTHER}"
    )


def fetch_unlisted(address: str, path: Path, progress: Callable[[int], None] | None = None) -> None:
    """Download one file without a published checksum: it is complete when it has the size that its server says.

    What an earlier attempt left there is completed if the server still has that version, as far as it tells versions
    apart; `FILE.version` has its name for the one that is begun. See `fetch_files` for `progress`.

    Raises:
        DownloadError: see `fetch_files`; the server does not say a size.
        UserError: a full disk.
    """
    size, version = _published(address)
    named = path.with_name(f"{path.name}.version")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind_of(named) == "file" and named.read_text("utf-8") != version:
            path.unlink(missing_ok=True)
        named.write_text(version, "utf-8")
        _complete(address, path, size, progress)
    except OSError as error:
        raise write_failed(path, error) from None


def _published(address):
    """The size of a file in bytes, and the name of its version, as its server says them; empty if it has none."""

    def ask():
        with _open(_request(address, "HEAD"), PATIENCE) as answer:
            size = _announced(answer)
            version = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if size is None:
            raise DownloadError(f"cannot download {address}: the server does not say its size. {_OTHER}")
        return size, version

    return _retried(address, ask)


def _retried(address, ask):
    """Return what a function returns, which is called again if the network fails."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            return ask()
        except UserError:
            raise
        except (http.client.HTTPException, OSError, ValueError) as error:
            reason = _reason(address, error)
    raise DownloadError(f"cannot download {address} ({reason}): check the network and run the command again.")


def _open(request, patience, deadline=None):
    """The answer to a request once all headers are there; `TimeoutError` if they are late, even without a silence."""
    latest = time.monotonic() + _OPENING * patience
    latest = latest if deadline is None else min(latest, deadline)
    opener, answers = urllib.request.build_opener(_Redirects), queue.SimpleQueue()

    def ask():
        try:
            answers.put(opener.open(request, timeout=patience))
        except Exception as error:
            answers.put(error)

    # In a thread, since resolving a name has no timeout, and that of a connection begins anew with every byte.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=max(0.0, latest - time.monotonic()))
    except queue.Empty:
        raise TimeoutError("it takes too long") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _reason(address, error):
    """Why an attempt failed; raise if another one would too."""
    if isinstance(error, urllib.error.HTTPError):
        if _is_final(error):
            raise DownloadError(f"cannot download {address}: {_said(error)}. {_MOVED}") from None
        return _said(error)
    return _plain(getattr(error, "reason", None) or error) or type(error).__name__


def _is_final(error):
    """Whether a server that answered with an error would do so again."""
    return error.code < 500 and error.code not in (416, 429)


def _said(error):
    return _plain(f"the server says {error.code} {error.reason}")


def _plain(reason):
    """What a server or a library said, on one line without control characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(reason)).split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _complete(address, path, size, progress, deadline=None):
    """Download the rest of a file, retrying as long as attempts make progress and there is no deadline."""
    failures, most, sent = 0, -1, size
    while True:
        there = _size(path)
        if there == size:
            return
        if there > size:
            path.unlink()
            there = -1
        most = max(most, there)
        try:
            sent = _append(address, path, max(there, 0), size, progress, deadline) or sent
            reason = "the connection ended early"
        except _Surplus:
            path.unlink()
            raise _other_file(address, f"more than {size:,} bytes") from None
        except UserError:
            # An error of the disk, or a redirect: the others are errors of the network, or of what the server sends.
            raise
        except (http.client.HTTPException, OSError, ValueError) as error:
            reason = _reason(address, error)
            if getattr(error, "code", None) == 416:
                path.unlink(missing_ok=True)
        there = _size(path)
        if there == size:
            return
        # A server that breaks off after every few bytes would be asked thousands of times.
        failures = 0 if there > most + size // _STEPS else failures + 1
        if failures == ATTEMPTS or deadline is not None:
            if sent == size:
                raise DownloadError(
                    f"cannot download {address} ({reason}): check the network and run the command again to resume."
                )
            path.unlink(missing_ok=True)
            raise _other_file(address, f"{sent:,} bytes, not {size:,}")
        _LOG.info("downloading %s: %s after %s of %s bytes; trying again", address, reason, max(there, 0), size)
        time.sleep(PAUSE * 2 ** max(failures - 1, 0))


def _other_file(address, has):
    return DownloadError(f"{address} is not the file that was published: it has {has}. {_OTHER}")


def _size(path):
    """Bytes of a file, or -1."""
    return path.stat().st_size if path.exists() else -1


class _Surplus(Exception):
    """A server sent more bytes than the file has."""


def _append(address, path, start, size, progress, deadline):
    """Append a file from byte `start` on, or write all that is sent; return the size of all if the server says it."""
    request = _request(address)
    if start:
        request.add_header("Range", f"bytes={start}-")
    with _open(request, PATIENCE if deadline is None else min(PATIENCE, _HURRY), deadline) as answer:
        resumes = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-")
        done = start if resumes else 0
        with _opened(path, "ab" if resumes else "wb") as file:
            # As soon as anything has arrived: a slow server must not outlast the deadline.
            while chunk := answer.read1(_CHUNK):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError("it takes too long")
                done += len(chunk)
                if done > size:
                    raise _Surplus
                _write(file, path, chunk)
                if progress is not None:
                    progress(done)
    return _announced(answer) if answer.status == 200 else None


def _opened(path, mode):
    try:
        # Unbuffered: whatever has arrived is on disk, and nothing is left to write on closing.
        return path.open(mode, buffering=0)
    except OSError as error:
        raise write_failed(path, error) from None


def _write(file, path, chunk):
    try:
        rest = memoryview(chunk)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise write_failed(path, error) from None
