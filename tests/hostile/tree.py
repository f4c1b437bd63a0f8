"""What stands in a folder, told by content, and a folder made as new: only what has changed is read or copied."""

import contextlib
import hashlib
import os
import shutil
import stat
import time
from pathlib import Path

# Nanoseconds after which a change gets another time than the one before: clocks of file systems tick so much slower.
TICK = 10**9


class Tree:
    """A folder with a copy of it, `pristine`, from which it is restored.

    Args:
        root: what is looked over; whatever stands below a folder named `pristine` is known by its time.
        work: the folder below it that is restored.
        pristine: where its copy is made, now.
    """

    def __init__(self, root, work, pristine):
        self.root, self.work, self.pristine = Path(root), Path(work), Path(pristine)
        self._digests = {}
        shutil.copytree(self.work, self.pristine, symlinks=True)
        self._wanted = _stats(self.pristine)
        self._as_new = {path: _stamp(about) for path, about in _stats(self.work).items()}

    def restore(self):
        """Make the working folder as new."""
        shutil.copystat(self.pristine, self.work)
        here = _stats(self.work)
        for path in sorted(here.keys() - self._wanted.keys()):
            _remove(self.work / path)
        for path, wanted in self._wanted.items():
            if path not in here or _stamp(here[path]) != self._as_new[path]:
                self._renew(path, wanted)

    def _renew(self, path, wanted):
        target, source = self.work / path, self.pristine / path
        if stat.S_ISDIR(wanted.st_mode):
            if target.is_symlink() or not target.is_dir():
                _remove(target)
                target.mkdir()
            shutil.copystat(source, target)
        else:
            _remove(target)
            shutil.copy2(source, target, follow_symlinks=False)
        self._as_new[path] = _stamp(target.lstat())

    def listing(self):
        """Kind, and a digest of the content, of every path."""
        found = {}
        for path, about in _stats(self.root).items():
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(self.root / path)
            elif stat.S_ISREG(about.st_mode):
                content = about.st_mtime_ns if "pristine" in path else self._digest(path, about)
            else:
                content = None
            found[path] = (stat.S_IFMT(about.st_mode), content)
        return found

    def _digest(self, path, about):
        known, digest = self._digests.get(path, (None, None))
        if known == _stamp(about):
            return digest
        with open(self.root / path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
        if time.time_ns() - about.st_mtime_ns > TICK:
            self._digests[path] = (_stamp(about), digest)
        return digest


def _stats(root):
    """What the system says of every path below a folder, folders before what is in them."""
    found, folders = {}, [""]
    while folders:
        above = folders.pop()
        # Folders without permission are left out, where root's rights are not at hand.
        with contextlib.suppress(PermissionError), os.scandir(root / above) as entries:
            for entry in entries:
                path = above + entry.name
                found[path] = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
    return found


def _stamp(about):
    """What is another one as soon as a file is changed; of a folder its rights alone."""
    if stat.S_ISDIR(about.st_mode):
        return about.st_mode
    return about.st_mode, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _remove(path):
    """Remove whatever stands there, if anything does."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
