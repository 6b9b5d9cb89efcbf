"""File systems: the local disk, and those that fsspec opens for a URL (`s3://…`, `memory://…`).

A path is always a `str`. A `RemotePath` is a URL with its file system; a `ConfinedPath` is a local
path that access rules restrict. The functions of this module treat all kinds alike. Code that opens
a file in another way calls `local` first.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from runnel.access import LOCAL_SCHEMES, Access, is_name_below, refused
from runnel.base.passwords import without_password
from runnel.connectors.confined_path import ConfinedPath, confined
from runnel.connectors.files.pipe import copied, is_pipe
from runnel.connectors.packages import required
from runnel.errors import OperationalError, ProgrammingError
from runnel.storage.durable_files import sync_folder

OWN_NAME = "part-"
"""The prefix of file names that are unique: a name with it is never used for a second file."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z][A-Za-z0-9+.-]+)*://")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read.

    path: its path.
    size: its size in bytes at the time of the listing.
    """

    path: str
    size: int


class RemotePath(str):
    """A URL.

    system: its fsspec file system.
    inner: the path within `system`.
    access: restricts what is opened through it; None: no restriction.
    """

    __slots__ = ("access", "inner", "system")

    system: Any
    inner: str
    access: Access | None

    def sibling(self, inner: str) -> RemotePath:
        """Another path of the same file system, under the same access rules.

        The rules are checked unless `inner` is below this path: a listing may name paths outside.
        """
        made = RemotePath(self.system.unstrip_protocol(inner))
        made.system, made.inner, made.access = self.system, inner, self.access
        if self.access is not None and not is_name_below(inner, self.inner):
            self.access.check_url(made)
        return made


def absolute_path(text: str, storage: Mapping[str, str], access: Access | None = None) -> str:
    """The path that a text names: an absolute local path, or a RemotePath.

    `storage` has the options of the file system. ProgrammingError if `access` forbids the path.
    """
    if is_remote(text):
        if access is not None:
            access.check_url(text)
            if storage:
                raise refused(f'option "storage.{next(iter(storage))}"')
            storage = _NO_REDIRECTS if text.lower().startswith("http") else storage
        path = _remote(text, storage)
        path.access = access
        return path
    _no_options(storage)
    plain = Path(text) if access is not None else Path(text).expanduser()
    if _URL.match(text) is not None:
        plain = Path(unquote(_url_path(text)))
    local_path = os.path.abspath(plain)  # noqa: PTH100 - resolves no links
    if access is None:
        return local_path
    access.resolve(local_path)
    return confined(local_path, access)


_NO_REDIRECTS: Mapping[str, Any] = {"allow_redirects": False}
"""Following a redirect could leave the addresses that the access rules allow."""


def local(path: str) -> str:
    """The path that the system may open: the real path, checked, if access rules restrict it."""
    return path.real() if isinstance(path, ConfinedPath) else path


def like(origin: str, path: str) -> str:
    """A local path with the access rules of `origin`, if that has some."""
    return origin.sibling(path) if isinstance(origin, ConfinedPath) else path


def _url_path(text: str) -> str:
    try:
        return urlsplit(text).path
    except ValueError as error:
        raise ProgrammingError(
            f'"{without_password(text)}" is no URL', detail=str(error)
        ) from error


def _no_options(storage: Mapping[str, str]) -> None:
    if storage:
        raise ProgrammingError(
            f'option "storage.{next(iter(storage))}" is for paths of other file systems',
            hint="leave it out for a local path",
        )


def _remote(text: str, storage: Mapping[str, Any]) -> RemotePath:
    fsspec = required("fsspec", f'path "{without_password(text)}"', "fsspec")
    try:
        system, inner = fsspec.url_to_fs(text, **storage)
    except ImportError as error:
        raise OperationalError(
            f'path "{without_password(text)}" needs another package',
            detail=str(error),
            hint="install it, and run the statement again",
        ) from error
    except Exception as error:
        detail = without_password(f"{type(error).__name__}: {error}")
        raise ProgrammingError(
            f'path "{without_password(text)}" can\'t be used', detail=detail
        ) from error
    # `inner` is the path that is opened; the text is for messages.
    made = RemotePath(without_password(text))
    made.system, made.inner = system, inner
    return made


def is_remote(text: str) -> bool:
    """Whether a text is a path of another file system than the local disk."""
    return _URL.match(text) is not None and text.partition("://")[0].lower() not in LOCAL_SCHEMES


def is_folder(path: str) -> bool:
    return (
        bool(path.system.isdir(path.inner))
        if isinstance(path, RemotePath)
        else Path(local(path)).is_dir()
    )


def exists(path: str) -> bool:
    return (
        bool(path.system.exists(path.inner))
        if isinstance(path, RemotePath)
        else Path(local(path)).exists()
    )


def size_of(path: str) -> int:
    if isinstance(path, RemotePath):
        return int(path.system.size(path.inner) or 0)
    return Path(local(path)).stat().st_size


def below(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    if isinstance(folder, RemotePath):
        return folder.sibling(f"{folder.inner.rstrip('/')}/{name}")
    return like(folder, str(Path(folder, name)))


def parent_of(path: str) -> str:
    if isinstance(path, RemotePath):
        return path.sibling(path.inner.rpartition("/")[0])
    return like(path, str(Path(path).parent))


def split_pattern(path: str, wildcards: frozenset[str]) -> tuple[str, str]:
    """The folder above the first wildcard, and the pattern below it."""
    parts = PurePosixPath(path.inner).parts if isinstance(path, RemotePath) else Path(path).parts
    first = next(i for i, part in enumerate(parts) if wildcards & set(part))
    base, pattern = str(PurePosixPath(*parts[:first])), str(PurePosixPath(*parts[first:]))
    return (path.sibling(base) if isinstance(path, RemotePath) else like(path, base)), pattern


def matching(base: str, pattern: str) -> list[DataFile]:
    """The files below `base` that match, sorted by name, without hidden ones."""
    if isinstance(base, RemotePath):
        return _matching_remote(base, pattern)
    local(base)
    depth = len(Path(base).parts)
    found = []
    for path in sorted(Path(base).glob(pattern)):
        if any(part.startswith(".") for part in path.parts[depth:]):
            continue
        name = like(base, str(path))
        try:
            status = Path(local(name)).stat()
        except FileNotFoundError:
            continue  # it was deleted or renamed since
        if not stat.S_ISDIR(status.st_mode):
            found.append(DataFile(name, status.st_size))
    return found


def _matching_remote(base: RemotePath, pattern: str) -> list[DataFile]:
    start = base.inner.rstrip("/")
    found = []
    for inner, info in sorted(base.system.glob(f"{start}/{pattern}", detail=True).items()):
        hidden = any(part.startswith(".") for part in inner[len(start) :].split("/"))
        if info.get("type") != "directory" and not hidden:
            found.append(DataFile(base.sibling(inner), int(info.get("size") or 0)))
    return found


def named_like(folder: str, prefix: str) -> list[str]:
    """The files in a folder, and below it, whose names start with `prefix`."""
    if isinstance(folder, RemotePath):
        if not exists(folder):
            return []
        found = folder.system.find(folder.inner)
        return [
            folder.sibling(inner) for inner in found if inner.rpartition("/")[2].startswith(prefix)
        ]
    local(folder)
    return [like(folder, str(path)) for path in Path(folder).rglob(f"{prefix}*") if path.is_file()]


def may_be_away(folder: str) -> bool:
    """Whether a folder that existed is missing, for instance because its disk is not mounted.

    False for object stores, since they have no folders.
    """
    return not isinstance(folder, RemotePath) and not Path(local(folder)).is_dir()


def keep_names(folder: str) -> None:
    """Makes the names in a folder, and the folder's own name, survive a power loss."""
    if not isinstance(folder, RemotePath):
        sync_folder(local(folder))
        sync_folder(Path(local(folder)).parent)


def subfolders(path: str) -> list[str]:
    """The names of the folders in a folder."""
    if isinstance(path, RemotePath):
        entries = path.system.ls(path.inner, detail=True)
        return [
            item["name"].rstrip("/").rpartition("/")[2]
            for item in entries
            if item.get("type") == "directory"
        ]
    return [item.name for item in Path(local(path)).iterdir() if item.is_dir()]


def opened(path: str) -> pa.NativeFile:
    """Opens a file for reading. The caller closes it."""
    if isinstance(path, RemotePath):
        return pa.PythonFile(path.system.open(path.inner, "rb"), mode="r")
    if isinstance(path, ConfinedPath):
        return path.opened()
    return pa.OSFile(path, "rb")


def created(path: str) -> io.IOBase:
    """Creates a file and opens it for writing. FileExistsError if it exists on the disk."""
    if isinstance(path, RemotePath):
        stream: io.IOBase = path.system.open(path.inner, "wb")
        return stream
    if isinstance(path, ConfinedPath):
        return path.created()
    return Path(path).open("xb")


def is_device(path: str) -> bool:
    """Whether a path is neither a file nor a folder: a pipe, a terminal, /dev/null. A confined
    path never leads to one."""
    if isinstance(path, RemotePath | ConfinedPath):
        return False
    known = Path(local(path))
    return known.exists() and not known.is_file() and not known.is_dir()


def seekable(path: str) -> str:
    """The path of a file with the same bytes, which may be opened more than once: a pipe is copied
    to a temporary file. A confined path never leads to a pipe."""
    if isinstance(path, RemotePath | ConfinedPath) or not is_pipe(path):
        return path
    return copied(path)


def opened_device(path: str) -> io.IOBase:
    """Opens a device for writing. The caller closes it."""
    return Path(path).open("wb")


def make_folder(path: str) -> None:
    """Creates a folder and its parents, unless they exist. Their names survive a power loss."""
    if isinstance(path, RemotePath):
        path.system.makedirs(path.inner, exist_ok=True)
    else:
        folder = Path(local(path))
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for created_folder in new:
            sync_folder(created_folder.parent)


def remove(path: str) -> None:
    """Removes a file, if it exists."""
    if not isinstance(path, RemotePath):
        Path(local(path)).unlink(missing_ok=True)
    elif path.system.exists(path.inner):
        path.system.rm_file(path.inner)


def publish(unfinished: str, final: str) -> None:
    """Renames a finished file to its final name, unless this was done before.

    Never replaces a file.
    """
    if not exists(unfinished):
        if exists(final):
            return
        raise OperationalError(
            f'staged file "{unfinished}" is gone', hint="run the statement again"
        )
    if isinstance(unfinished, RemotePath) and isinstance(final, RemotePath):
        if not exists(final):
            unfinished.system.mv(unfinished.inner, final.inner)
        elif size_of(final) == size_of(unfinished) and final.rpartition("/")[2].startswith(
            OWN_NAME
        ):
            # A move is a copy there, and the process died before it removed the original.
            remove(unfinished)
        else:
            raise FileExistsError(17, "File exists", final)
        return
    unfinished, final = local(unfinished), local(final)
    try:
        os.link(unfinished, final)
    except FileExistsError:
        if not Path(final).samefile(unfinished):
            raise
    except OSError:
        # A file system without links: the check and the rename are two steps.
        if Path(final).exists():
            raise FileExistsError(17, "File exists", final) from None
        Path(unfinished).rename(final)
        sync_folder(Path(final).parent)
        return
    Path(unfinished).unlink()
    sync_folder(Path(final).parent)
