"""The bounds of a caller: files below some folders, URLs below some addresses, modules of one
folder.

A path is compared after all its links are resolved, each time that it is used, and a file again
after it was opened. A caller without bounds has no `Access`, and none of these checks run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from runnel.base.frozen import frozen
from runnel.base.passwords import without_password
from runnel.errors import ErrorCode, InterfaceError, ProgrammingError

NEVER = ("/proc", "/sys", "/dev")
"""System folders that are always out of reach: their entries are not data files."""

LOCAL_SCHEMES = ("file", "local")
"""The schemes of URLs that name local paths."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LINKS = "/proc/self/fd"
_REMEDY = (
    "the owner names what may be reached (runnel serve --files, connect(allowed_paths=…)), "
    "or defines it"
)


@frozen
class Module:
    """A Python module, with the content that its file had when it was read.

    name: name of the module.
    path: real path of its file.
    source: content of its file.
    """

    name: str
    path: str
    source: str


@frozen
class Access:
    """The bounds of a caller. An empty instance permits no path and no URL.

    roots: real paths of folders and files; they and everything below them may be read and written.
    urls: addresses ('scheme://', 'scheme://host', 'scheme://host/path'); URLs below one of them may
        be used.
    hidden: real paths of folders that are out of reach, also below a root.
    modules: the Python modules that a job may name.
    """

    roots: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    modules: tuple[Module, ...] = ()

    def covers(self, real: str) -> bool:
        """Whether a real path is within the bounds. Does not access the disk."""
        return _is_below_any(real, self.roots) and not _is_below_any(real, (*self.hidden, *NEVER))

    def resolve(self, path: str) -> str:
        """The real path to which a path currently leads. Raises ProgrammingError for a path outside
        of the bounds, with the same text whether or not it exists, and for one that is neither a
        regular file nor a folder."""
        try:
            real = os.path.realpath(path)
        except ValueError as error:
            raise ProgrammingError(
                f"{path!a} can't be a path",
                detail=str(error),
                hint="leave out NUL characters and lone surrogates",
            ) from error
        if not self.covers(real):
            raise outside(path)
        with suppress(OSError):  # the caller reports a missing file when it opens it
            _check_kind(path, Path(real).stat().st_mode)
        return real

    def open(self, path: str, flags: int) -> int:
        """Opens a file within the bounds with these flags; returns its descriptor. Raises OSError
        as `os.open` does."""
        real = self.resolve(path)
        # Meanwhile the file may have been replaced by a link, or by something that blocks.
        descriptor = os.open(real, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        try:
            _check_kind(path, os.fstat(descriptor).st_mode)
            if os.path.isdir(_LINKS) and os.readlink(f"{_LINKS}/{descriptor}") != real:  # noqa: PTH112, PTH115 - no objects
                raise outside(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def check_url(self, url: str) -> None:
        """Raises ProgrammingError for a URL outside of the bounds."""
        if not any(_is_url_below(url, allowed) for allowed in self.urls):
            raise outside(without_password(url), "URL")


def access_of(paths: Iterable[str | Path], hidden: Iterable[str | Path] = ()) -> Access:
    """The bounds for folders, files and URLs; a `file:` or `local:` URL stands for its path.
    InterfaceError for a path that doesn't exist, or is in a hidden folder."""
    if isinstance(paths, str | bytes):
        raise InterfaceError("allowed paths are a list of folders, files and URLs, not one text")
    concealed = tuple(os.path.realpath(item) for item in hidden)
    roots, urls = [], []
    for item in paths:
        if not isinstance(item, str | Path):
            raise InterfaceError(
                f"an allowed path is a str or Path, not a value of class {type(item).__name__}"
            )
        text = str(item)
        if "://" in text:
            if (path := _path_of(_checked_url(text))) is None:
                urls.append(text)
                continue
            text = path
        real = "" if not text or "\0" in text else os.path.realpath(Path(text).expanduser())
        if not real or not os.path.exists(real):  # noqa: PTH110
            raise InterfaceError(
                f"allowed path {text!a} does not exist", hint="make the folder first"
            )
        if _is_below_any(real, (*concealed, *NEVER)):
            raise InterfaceError(
                f'"{text}" can\'t be an allowed path',
                detail="it is in a folder that is always out of reach",
            )
        roots.append(real)
    return Access(tuple(roots), tuple(urls), concealed)


def modules_in(folder: str | Path) -> tuple[Module, ...]:
    """The Python files of a folder, with their current content."""
    try:
        found = [
            (item, item.read_text("utf-8"))
            for item in sorted(Path(folder).resolve(strict=True).glob("*.py"))
        ]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InterfaceError(f'the modules of "{folder}" can\'t be read', detail=reason) from error
    return tuple(Module(item.stem, str(item), source) for item, source in found)


def check_apart(access: Access, folder: str | Path, what: str) -> None:
    """Raises InterfaceError if callers within the bounds could write to a folder."""
    real = os.path.realpath(folder)
    if access.covers(real) or any(_is_below_any(root, (real,)) for root in access.roots):
        raise InterfaceError(
            f'{what} "{folder}" is in a folder that clients may write', hint="use separate folders"
        )


def outside(path: str, kind: str = "path") -> ProgrammingError:
    """The error for a path or URL outside of the bounds. It is the same whether or not the file
    exists."""
    return ProgrammingError(
        f'{kind} "{path}" is outside of what may be reached',
        code=ErrorCode.NOT_ALLOWED,
        hint=_REMEDY,
    )


def refused(what: str, hint: str = _REMEDY) -> ProgrammingError:
    """The error for something that only a caller without bounds may use."""
    return ProgrammingError(
        f"{what} may be used by the owner only", code=ErrorCode.NOT_ALLOWED, hint=hint
    )


def _check_kind(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ProgrammingError(
            f'"{path}" is no regular file',
            code=ErrorCode.NOT_ALLOWED,
            hint="name a file or a folder",
        )


def _is_below_any(real: str, folders: Iterable[str]) -> bool:
    return any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in folders)


def _path_of(url: str) -> str | None:
    """The local path that a URL names; None for a URL of another file system."""
    parts = urlsplit(url)
    if parts.scheme.lower() not in LOCAL_SCHEMES:
        return None
    if parts.netloc or not parts.path.startswith("/"):
        raise InterfaceError(
            f'"{url}" can\'t be an allowed URL',
            detail=f'it names the host "{parts.netloc}"' if parts.netloc else "it names no path",
            hint=f"write {parts.scheme}:///folder, or the path alone",
        )
    return unquote(parts.path)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if "::" in url or not parts.scheme or "@" in parts.netloc or parts.query or parts.fragment:
        raise InterfaceError(
            f'"{without_password(url)}" can\'t be an allowed URL',
            hint="it is one such as s3://bucket/folder or https://host",
        )
    return url


def is_name_below(inner: str, folder: str) -> bool:
    """Whether `inner`, a path as its file system lists and opens it, is below a folder of the same
    file system, without a step upwards."""
    start = folder.rstrip("/") + "/"
    return inner.startswith(start) and "\\" not in inner and ".." not in _names(inner[len(start) :])


def _is_url_below(url: str, allowed: str) -> bool:
    """Whether a URL has the scheme, the host and port, and the beginning of the path of an allowed
    one. False for a URL whose path is ambiguous: `urlsplit` drops control characters and blanks at
    the ends, but a file system may keep them."""
    if "::" in url or "\\" in url or url != url.strip() or _CONTROL.search(url) is not None:
        return False
    try:
        requested, root = urlsplit(url), urlsplit(allowed)
    except ValueError:
        return False
    if requested.scheme.lower() != root.scheme.lower() or "@" in requested.netloc:
        return False
    steps, root_steps = _steps(requested), _steps(root)
    return ".." not in steps and steps[: len(root_steps)] == root_steps


def _steps(parts: SplitResult) -> list[str]:
    """The host and the names of the path, as one list: some file systems do not distinguish a host
    from the first name of a path."""
    return [step for step in (parts.netloc.lower(), *_names(parts.path)) if step not in ("", ".")]


def _names(path: str) -> list[str]:
    while (decoded := unquote(path)) != path:
        path = decoded
    return path.split("/")
