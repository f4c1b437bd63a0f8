"""A file of what is made from lines of text, part by part: a call that was stopped is gone on with by the next."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.files import (
    PathLike,
    check_mode,
    discards_output,
    kind_of,
    open_output,
    read_json,
    remove_partials,
    shown,
    write_failed,
    write_json,
)
from keras_attn_zoo.support.locks import locked


@contextlib.contextmanager
def resumable_output(path: PathLike, made_by: Mapping[str, Any]) -> Iterator["ResumableOutput"]:
    """Open a file that appears once all is written; after an error or a kill, the next call writes the rest.

    What is written until then is in a folder beside it, `FILE.unfinished`, with a record of how it was made.

    Args:
        path: the file.
        made_by: what the result depends on, beside the lines: plain data by name.

    Raises:
        UserError: the path is no file, or cannot be written; what is there was made by something else, or is damaged;
            another process writes it.

    Example:
        >>> with resumable_output("upper.txt", {"function": "upper"}) as output:
        ...     for part in output.rest([["a", "b"], ["c"]]):
        ...         output.append("".join(line.upper() + "\\n" for line in part), part)
        >>> Path("upper.txt").read_text()
        'A\\nB\\nC\\n'
    """
    path = Path(path)
    if kind_of(path) not in (None, "file"):
        raise UserError(f"{shown(path)} is no file, and only one can be gone on with: name a file, or do not resume.")
    folder = path.with_name(f"{path.name}.unfinished")
    if not discards_output():
        try:
            check_mode(Path(os.path.realpath(path)))
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_failed(path, error) from error
    with locked(path.parent, f".{path.name}.lock", used=path):
        output = ResumableOutput(path, folder, made_by)
        try:
            yield output
            if not discards_output():
                output.finish()
        finally:
            output.close()


class ResumableOutput:
    """What `resumable_output` opens.

    Attributes:
        lines: for how many lines of the text the output is written.
    """

    def __init__(self, path: Path, folder: Path, made_by: Mapping[str, Any]) -> None:
        # As a file of JSON has it: with lists for tuples.
        self._made_by = json.loads(json.dumps(dict(made_by)))
        self._path, self._folder = path, folder
        self._written, self._record = folder / "output", folder / "progress.json"
        self._sum = hashlib.sha256()
        found = self._read_record()
        self.lines: int = found["lines"] if found else 0
        self._known_sum: str = found["sha256"] if found else self._sum.hexdigest()
        if discards_output():
            return
        try:
            self._file = self._written.open("ab")
            # What was written after the last record may end within a line.
            self._file.truncate(found["bytes"] if found else 0)
        except OSError as error:
            raise write_failed(self._folder, error) from error

    def rest(self, parts: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the lines of a text for which nothing is written yet; the parts may be cut otherwise than before.

        Raises:
            UserError: the lines before them are others than those that the output was made from.
        """
        before = self.lines
        for part in parts:
            if before:
                self._add(part[:before])
                part, before = part[before:], max(0, before - len(part))
                if not before:
                    self._check_text()
            if part:
                yield part
        if before:
            self._check_text()

    def append(self, text: str, lines: list[str]) -> None:
        """Write what was made of the next lines, whole lines too, and remember how far it goes."""
        if discards_output():
            return
        self._add(lines)
        self.lines += len(lines)
        self._known_sum = self._sum.hexdigest()
        try:
            self._file.write(text.encode())
            self._file.flush()
        except OSError as error:
            raise write_failed(self._path, error) from error
        record = {"made_by": self._made_by, "lines": self.lines, "sha256": self._known_sum, "bytes": self._file.tell()}
        write_json(self._record, record)

    def finish(self) -> None:
        """Put the whole output in its place."""
        with self._written.open("rb") as written, open_output(self._path) as file:
            shutil.copyfileobj(written, file)
        self._record.unlink(missing_ok=True)

    def close(self) -> None:
        """Close what is written so far; without a record of it, remove it."""
        if discards_output():
            return
        self._file.close()
        if kind_of(self._record) is None:
            self._written.unlink()
            remove_partials(self._folder)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def _add(self, lines):
        self._sum.update("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))

    def _check_text(self):
        if self._sum.hexdigest() != self._known_sum:
            raise UserError(
                f"the text is another one, in its first {counted(self.lines, 'line')}, than that of "
                f"{shown(self._folder)}: give the same, or remove that folder to begin anew."
            )

    def _read_record(self):
        """What was written before, and how it was made; None if nothing was."""
        if discards_output() or kind_of(self._record) is None:
            return None
        found = read_json(self._record)
        fits = isinstance(found, dict) and isinstance(found.get("made_by"), dict)
        fits = fits and all(type(found.get(name)) is int and found[name] >= 0 for name in ("lines", "bytes"))
        size = self._written.stat().st_size if kind_of(self._written) == "file" else -1
        if not fits or not isinstance(found.get("sha256"), str) or size < found["bytes"]:
            raise UserError(f"{shown(self._folder)} is damaged: remove it, to begin anew.")
        was, now = found["made_by"], self._made_by
        for name in sorted(was.keys() | now.keys()):
            if was.get(name) != now.get(name):
                raise UserError(
                    f"{shown(self._folder)} was begun with {name}={shown(was.get(name))}, not "
                    f"{shown(now.get(name))}: give the same, or remove that folder to begin anew."
                )
        return found
