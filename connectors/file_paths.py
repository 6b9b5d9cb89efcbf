"""Which files a path names: one file, the files of a folder, or those that match a pattern.

Names that start with a dot are never read: among them are the files that a sink hasn't finished. In a folder without a
`glob`, names that start with an underscore are left out too, as markers of other systems (`_SUCCESS`). Nothing outside
the given path is looked at.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from runnel.errors import ErrorCode, OperationalError, ProgrammingError, suggest

WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read, and how many bytes it had when it was found."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FilePath:
    """The `path` and `glob` options: `text` is absolute. With `ignore_missing` a path that names nothing is no error."""

    text: str
    glob: str | None = None
    ignore_missing: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether the path itself has wildcards (and isn't the name of something that exists)."""
        return bool(WILDCARDS & set(self.text)) and not Path(self.text).exists()

    def files(self) -> list[DataFile]:
        """The files as they are now, by name; OperationalError where there are none."""
        try:
            found = self._find()
        except OSError as error:
            raise unreadable(self.text, error) from error
        if not found and not self.ignore_missing:
            raise self._nothing()
        return found

    def _find(self) -> list[DataFile]:
        if self.is_pattern:
            base, pattern = _split_pattern(Path(self.text))
            return _matching(base, pattern)
        path = Path(self.text)
        if path.is_dir():
            if self.glob is not None:
                return _matching(path, self.glob)
            return [item for item in _matching(path, "*") if not Path(item.path).name.startswith("_")]
        if not path.exists():
            return []
        if self.glob is not None:
            raise ProgrammingError(f'option "glob" is given, but "{self.text}" is not a folder', hint='leave "glob" out')
        return [DataFile(self.text, path.stat().st_size)]

    def _nothing(self) -> OperationalError:
        path = Path(self.text)
        ignoring = "; with OPTIONS ('ignoreFileNotFound' = 'true') it counts as empty"
        if self.is_pattern:
            message = f'no file matches the pattern "{self.text}"'
            return OperationalError(message, code=ErrorCode.OBJECT_NOT_FOUND, hint="correct the pattern" + ignoring)
        if path.is_dir():
            which = "has no files to read" if self.glob is None else f'has no file that matches "{self.glob}"'
            return OperationalError(
                f'folder "{self.text}" {which}', code=ErrorCode.OBJECT_NOT_FOUND, hint="correct the path or glob" + ignoring
            )
        return missing(self.text)


def file_path(text: str, glob: str | None, *, ignore_missing: bool) -> FilePath:
    """The options as an absolute path, checked as far as that goes without looking at the disk."""
    if "\0" in text:
        raise ProgrammingError('option "path" of connector File has a NUL character')
    if glob is not None and (Path(glob).is_absolute() or ".." in Path(glob).parts or "\0" in glob):
        raise ProgrammingError(
            f"wrong value '{glob}' for option \"glob\" of connector File",
            hint="it takes a pattern of names below the path, such as '*.csv' or '**/*.csv'",
        )
    return FilePath(os.path.abspath(Path(text).expanduser()), glob, ignore_missing)  # noqa: PTH100 - resolves no links


def missing(path: str) -> OperationalError:
    """The error for a path that isn't there, with the nearest name in its folder."""
    parent = Path(path).parent
    hint = None
    if parent.is_dir():
        try:
            hint = suggest(Path(path).name, [item.name for item in parent.iterdir()])
        except OSError:
            hint = None
    else:
        hint = f'there is no folder "{parent}" either'
    return OperationalError(f'file or folder "{path}" not found', code=ErrorCode.OBJECT_NOT_FOUND, hint=hint)


def unreadable(path: str, error: Exception) -> OperationalError:
    """The error for a file that can't be read, in the words of the system."""
    reason = getattr(error, "strerror", None)
    hint = None if reason else "the file is damaged, cut off or not yet finished"
    return OperationalError(f'file "{path}" can\'t be read', detail=reason or str(error), hint=hint)


def _split_pattern(path: Path) -> tuple[Path, str]:
    """The folder above the first wildcard, and the pattern below it."""
    first = next(i for i, part in enumerate(path.parts) if WILDCARDS & set(part))
    return Path(*path.parts[:first]), str(Path(*path.parts[first:]))


def _matching(base: Path, pattern: str) -> list[DataFile]:
    """The files below `base` that match, by name, without those hidden in it."""
    depth = len(base.parts)
    found = []
    for path in sorted(base.glob(pattern)):
        if any(part.startswith(".") for part in path.parts[depth:]):
            continue
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            found.append(DataFile(str(path), status.st_size))
    return found
