"""What the caller of a statement may reach: files below some folders, URLs below some addresses,
modules of one folder.

A path is compared after all its links are resolved, each time that it is used, and a file again
after it was opened. Without bounds there is no `Access` at all, and none of this runs.
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
from runnel.errors import ErrorCode, InterfaceError, ProgrammingError, without_password

NEVER = ("/proc", "/sys", "/dev")
"""Folders of the system that no bounds open: what is in them are no data files."""

LOCAL_SCHEMES = ("file", "local")
"""Of URLs that name paths of the disk."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LINKS = "/proc/self/fd"
_REMEDY = (
    "the owner names what may be reached (runnel serve --files, connect(allowed_paths=…)), "
    "or defines it"
)


@frozen
class Module:
    """A Python module as its file was when it was looked at."""

    name: str
    path: str
    source: str


@frozen
class Access:
    """The bounds of a caller. The empty one reaches no path and no URL.

    roots: real paths of the folders and files that may be read and written, with all below them.
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
        """Whether a real path is within the bounds; looks at nothing."""
        return _is_below_any(real, self.roots) and not _is_below_any(real, (*self.hidden, *NEVER))

    def resolve(self, path: str) -> str:
        """The real path that a path leads to now. ProgrammingError outside of the bounds, the same
        whatever is there, and for what is neither a regular file nor a folder."""
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
        with suppress(OSError):  # what is missing is told by who opens it
            _check_kind(path, Path(real).stat().st_mode)
        return real

    def open(self, path: str, flags: int) -> int:
        """A descriptor of a file within the bounds, opened with these flags. OSError as
        `os.open`."""
        real = self.resolve(path)
        # What was put in the place of the file meanwhile may be a link, or something that blocks.
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
        """ProgrammingError for a URL outside of the bounds."""
        if not any(_is_url_below(url, allowed) for allowed in self.urls):
            raise outside(without_password(url), "URL")


def access_of(places: Iterable[str | Path], hidden: Iterable[str | Path] = ()) -> Access:
    """Bounds of folders, files and URLs; a `file:` or `local:` URL is the path in it.
    InterfaceError for a path that doesn't exist, or lies in a hidden folder."""
    if isinstance(places, str | bytes):
        raise InterfaceError("allowed paths are a list of folders, files and URLs, not one text")
    concealed = tuple(os.path.realpath(item) for item in hidden)
    roots, urls = [], []
    for item in places:
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
    """The Python files of a folder, as they are now."""
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
    """InterfaceError where callers within the bounds could write to a folder."""
    real = os.path.realpath(folder)
    if access.covers(real) or any(_is_below_any(root, (real,)) for root in access.roots):
        raise InterfaceError(
            f'{what} "{folder}" lies where clients may write', hint="take folders that are apart"
        )


def outside(path: str, kind: str = "path") -> ProgrammingError:
    """The error for what is out of reach. It is the same whatever is there."""
    return ProgrammingError(
        f'{kind} "{path}" is outside of what may be reached',
        code=ErrorCode.NOT_ALLOWED,
        hint=_REMEDY,
    )


def refused(what: str, hint: str = _REMEDY) -> ProgrammingError:
    """The error for what only a caller without bounds may use."""
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
    """The path of the disk that a URL names; None for one of another file system."""
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
    """Whether a path of a file system, as this lists and opens it, lies below a folder of the same,
    without a step upwards."""
    start = folder.rstrip("/") + "/"
    return inner.startswith(start) and "\\" not in inner and ".." not in _names(inner[len(start) :])


def _is_url_below(url: str, allowed: str) -> bool:
    """Whether a URL has the scheme, the host and port, and the beginning of the path. One in which
    a path could be read in two ways isn't: `urlsplit` drops control characters and blanks at the
    ends, a file system may not."""
    if "::" in url or "\\" in url or url != url.strip() or _CONTROL.search(url) is not None:
        return False
    try:
        given, root = urlsplit(url), urlsplit(allowed)
    except ValueError:
        return False
    if given.scheme.lower() != root.scheme.lower() or "@" in given.netloc:
        return False
    steps, wanted = _steps(given), _steps(root)
    return ".." not in steps and steps[: len(wanted)] == wanted


def _steps(parts: SplitResult) -> list[str]:
    """The host and the names of the path. Some file systems don't tell a host from the first name
    of a path."""
    return [step for step in (parts.netloc.lower(), *_names(parts.path)) if step not in ("", ".")]


def _names(path: str) -> list[str]:
    while (decoded := unquote(path)) != path:
        path = decoded
    return path.split("/")
