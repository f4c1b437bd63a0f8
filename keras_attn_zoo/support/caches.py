"""Folders in the user's cache, and whether somebody else may have written what stands in one."""

import os
import stat
from pathlib import Path

from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.support.files import PathLike, shown

# As the system has them, before it takes them for a loop.
_MOST_LINKS = 40


def cache_of(name: str) -> Path:
    """Return the folder of a cache of the package, in `XDG_CACHE_HOME` or `~/.cache`, whether it is there or not.

    Raises:
        UserError: this user has no home folder.
    """
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise UserError(
            "this user has no home folder to keep downloads in: set XDG_CACHE_HOME to a folder for them."
        ) from None
    return caches / "keras-attn-zoo" / name


def create(folder: PathLike) -> None:
    """Create a folder, and those that it is in, for this user alone."""
    folder = Path(folder)
    for path in (*reversed(folder.parents), folder):
        path.mkdir(mode=0o700, exist_ok=True)


def who_else_writes(folder: PathLike) -> str | None:
    """Return why what stands in a folder may be somebody else's, as part of a sentence; None if it is not.

    To be used before anything of a folder is run. Folders and files have to belong to this user or to root, and nobody
    else may write to them: neither to the folder and its files nor to any folder or link that leads there. A folder
    such as /tmp, where everybody may add files but nobody may replace those of others, may lead there. Nor does a group
    count that is this user's own, nor what is not there yet. Lists of access rights beside these are not read, and on
    Windows nothing is.

    Example:
        >>> who_else_writes("/usr/bin")
    """
    if os.name == "nt":
        return None
    try:
        return _who_else_writes(Path(folder).absolute())
    except OSError as error:
        return f"{shown(error.filename)} cannot be checked"


def _who_else_writes(folder):
    path, rest, links = Path(folder.anchor), [*reversed(folder.parts[1:])], 0
    while True:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return f"{shown(folder)} is a loop of links"
            if reason := _owner(path, found):
                return reason
            target = Path(os.readlink(path))
            path = Path(target.anchor) if target.is_absolute() else path.parent
            rest += reversed(target.parts[target.is_absolute() :])
        elif reason := _owner(path, found) or _writers(path, found, sticks=bool(rest)):
            return reason
        if not rest:
            break
        part = rest.pop()
        path = path.parent if part == ".." else path / part
        if not os.path.lexists(path):
            return None
    # Where nobody else may enter, the permissions of files do not count.
    open_to_others = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o011
    with os.scandir(path) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if reason := _owner(entry.path, found):
                return reason
            if open_to_others and not entry.is_symlink() and (reason := _writers(entry.path, found)):
                return reason
    return None


def _owner(path, found):
    """That a file or folder belongs to somebody else."""
    import pwd

    if found.st_uid in (0, os.getuid()):
        return None
    try:
        name = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        name = found.st_uid
    return f"{shown(path)} belongs to user {name}"


def _writers(path, found, sticks=False):
    """That others may write to a file or folder; in one that `sticks`, they may so long as it is to their own files."""
    if sticks and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return f"everybody may write to {shown(path)}"
    if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
        return f"its group may write to {shown(path)}"
    return None


def _is_own_group(number):
    """Whether a group is that of this user alone, as many systems give one to everybody."""
    import grp
    import pwd

    try:
        name, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}
