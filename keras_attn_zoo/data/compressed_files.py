"""Bytes of files and of standard input, whichever way they are compressed, and their lines."""

import bz2
import contextlib
import gzip
import io
import lzma
import select
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, check_file, shown

STANDARD_INPUT = "-"
# Endings of names, in which other endings may stand before.
SUFFIXES = (".gz", ".xz", ".bz2")
# Longer lines are not sentences; a file without line breaks must not be read into memory.
LONGEST_LINE = 2**24
# A producer that writes nothing for this many seconds has paused.
_PAUSE = 0.05
_CHUNK = 2**16


class _Unpacked(io.RawIOBase):
    """The content of a file, or of several that were joined; `lzma` and `bz2` stop silently at what is none."""

    def __init__(self, stream, decompressor):
        self._stream, self._new, self._decompressor = stream, decompressor, decompressor()

    def readable(self):
        return True

    def readinto(self, buffer):
        content = b""
        while not content:
            packed = b""
            if self._decompressor.eof:
                packed = self._decompressor.unused_data
                # The format of xz allows zeros after a file.
                while not (packed := packed.lstrip(b"\0")):
                    if not (packed := self._stream.read(_CHUNK)):
                        return 0
                self._decompressor = self._new()
            elif self._decompressor.needs_input and not (packed := self._stream.read(_CHUNK)):
                raise EOFError("it ends too early")
            content = self._decompressor.decompress(packed, len(buffer))
        buffer[: len(content)] = content
        return len(content)


# What a file begins with. Of bzip2, its first block too: a text may begin with three letters.
_READ: dict[tuple[bytes, ...], tuple[str, Callable[[Any], Any]]] = {
    (b"\x1f\x8b",): ("gzip", lambda stream: gzip.GzipFile(fileobj=stream)),
    (b"\xfd7zXZ\0",): ("xz", lambda stream: _Unpacked(stream, lzma.LZMADecompressor)),
    tuple(b"BZh%d%b" % (level, block) for level in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")): (
        "bzip2",
        lambda stream: _Unpacked(stream, bz2.BZ2Decompressor),
    ),
}
_REFUSED = {
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", "zstd -d"),
    b"\x04\x22\x4d\x18": ("compressed with LZ4", "lz4 -d"),
    # The format before xz: its properties by default, and the first byte of a dictionary size, which is a power of 2.
    b"\x5d\x00\x00": ("compressed with LZMA", "xz --format=lzma -d"),
    b"LZIP\x01": ("compressed with lzip", "lzip -d"),
    b"\x89LZO\x00\r\n\x1a\n": ("compressed with lzop", "lzop -d"),
    b"\x1f\x9d": ("compressed with compress", "gzip -d"),
    b"PK\x03\x04": ("a zip archive", "unzip"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "7z x"),
    b"Rar!\x1a\x07": ("a RAR archive", "unrar x"),
}
# The name of the format stands in the header of the first file.
_TAR = slice(257, 262), b"ustar", ("a tar archive", "tar -xf")


def name_of(path: PathLike) -> str:
    """Return the name of a file or of standard input, as messages have it."""
    return "standard input" if path == STANDARD_INPUT else shown(path)


def file_in_command(path: PathLike) -> str:
    """Return the name of a file as a command in a message has it."""
    return "FILE" if path == STANDARD_INPUT else shlex.quote(shown(path))


def check_source(path: PathLike) -> None:
    """Raise unless there is something to read.

    Raises:
        UserError: there is no such file, it is a folder, or standard input is closed.
    """
    if path != STANDARD_INPUT:
        check_file(path, streams=True)
    elif sys.stdin is None or sys.stdin.closed:
        raise UserError("standard input is closed: give a file or sentences.")


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[Any]:
    """Open a file or standard input, plain or compressed with gzip, xz or bzip2, which the first bytes tell apart.

    Raises:
        UserError: it cannot be read, is damaged, or is compressed in another way; the message says what unpacks it.
    """
    form = ""
    try:
        with contextlib.ExitStack() as stack:
            stream: Any = sys.stdin.buffer if path == STANDARD_INPUT else stack.enter_context(open(path, "rb"))
            for begins, (name, unpack) in _READ.items():
                if stream.peek(10).startswith(begins):
                    form = name
                    stream = stack.enter_context(io.BufferedReader(unpack(stream)))
                    break
            _refuse_archives(path, stream.peek(512))
            yield stream
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, form, error) from None
    except OSError as error:
        if error.errno is None:
            # What decompresses has no number of the system's for what it finds.
            raise _damaged(path, form, error) from None
        raise UserError(
            f"cannot read {name_of(path)}: {error.strerror}. Check the path and its permissions."
        ) from error


def _damaged(path, form, error):
    return UserError(f"{name_of(path)} is a damaged or truncated {form} file ({error}): download or compress it again.")


def _refuse_archives(path, begin):
    where, name, of_tar = _TAR
    for what, command in (
        *(found for magic, found in _REFUSED.items() if begin.startswith(magic)),
        *([of_tar] if begin[where] == name else ()),
    ):
        raise UserError(
            f"{name_of(path)} is {what}, which is not read: unpack it with `{command} {file_in_command(path)}`."
        )


def byte_lines(stream: Any) -> Iterator[bytes]:
    """Yield the lines of a stream, cut one byte above the maximum length."""
    return iter(lambda: stream.readline(LONGEST_LINE + 1), b"")


def lines_and_pauses(stream: Any) -> Iterator[bytes | None]:
    """Yield the lines of a pipe or a terminal as they arrive, and None while the next one is not available."""
    begun = b""
    # This first empties the stream's own buffer.
    while (chunk := stream.read1(1 << 16)) != b"":
        if chunk is None:
            # The pipe is non-blocking, so wait here.
            yield None
            select.select([stream], [], [])
            continue
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(begun) > LONGEST_LINE:
            break
        if not select.select([stream], [], [], _PAUSE)[0]:
            yield None
    if begun:
        yield begun


def may_pause(stream: Any) -> bool:
    """Return whether a stream can be polled for readiness; a compressed one cannot."""
    if not isinstance(getattr(stream, "raw", None), io.FileIO):
        return False
    try:
        select.select([stream], [], [], 0)
    except (OSError, ValueError):
        return False
    return True


def check_line(path: PathLike, number: int, line: bytes) -> None:
    """Raise if a line cannot be text.

    Raises:
        UserError: it is too long, or contains a NUL character.
    """
    if len(line) > LONGEST_LINE:
        raise UserError(
            f"{name_of(path)} line {number} has more than {LONGEST_LINE:,} bytes: give one sentence per line."
        )
    if b"\0" in line:
        raise nul_character(path, number)


def nul_character(path: PathLike, number: int) -> UserError:
    """Return the error about a line that contains a NUL character."""
    return UserError(
        f"{name_of(path)} line {number} contains a NUL character: remove it, or convert the file from UTF-16 to UTF-8."
    )
