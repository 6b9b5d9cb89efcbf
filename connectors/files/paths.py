"""The files that a path names: one file, the files of a folder, or those that match a pattern.

Names that start with a dot are never read; unfinished files of a sink have such names. In a folder
without a `glob`, names that start with an underscore are not read either, since other systems use
them as markers (`_SUCCESS`). Nothing outside the given path is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runnel.access import Access
from runnel.connectors.confined_path import ConfinedPath
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.storage import DataFile, RemotePath
from runnel.errors import Error, ErrorCode, IOException, OperationalError, ProgrammingError, suggest

WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FilePath:
    """The options `path` and `glob`.

    text: an absolute path, or a URL.
    glob: a pattern of names below the folder `text`.
    ignore_missing: whether a path without files is no error.
    has_subfolders: whether a folder without a glob stands for all files below it.
    written: the path as the statement has it; "" if it is not known.
    """

    text: str
    glob: str | None = None
    ignore_missing: bool = False
    has_subfolders: bool = False
    written: str = ""

    def shown(self, file: DataFile) -> str:
        """The path of one of the files, relative if the path is written so."""
        written = self.written
        if not written or isinstance(file.path, RemotePath) or not _is_relative(written):
            return str(file.path)
        if not self.is_pattern:
            # Example: `data/` with /home/ann/data/1.csv is data/1.csv.
            return written.rstrip("/") + file.path[len(self.text) :]
        # Example: `./data/*.csv` with /home/ann/data/1.csv: the folder data/ is /home/ann/data/.
        folder = written.removeprefix("./")
        folder = folder[: min(folder.index(item) for item in WILDCARDS if item in folder)]
        folder = folder[: folder.rfind("/") + 1]
        base = Path(self.text[: len(self.base())])
        return folder + str(Path(file.path).relative_to(base))

    def with_subfolders(self) -> FilePath:
        """The same path; of a folder without a glob, all files below it."""
        return replace(self, has_subfolders=True)

    @property
    def is_pattern(self) -> bool:
        """Whether the path itself has wildcards, and is not the name of an existing file."""
        return bool(WILDCARDS & set(self.text)) and not file_system.exists(self.text)

    def is_folder(self) -> bool:
        """Whether the path is a folder."""
        return file_system.is_folder(self.text)

    def base(self) -> str:
        """The folder above the first wildcard, or the path itself."""
        return file_system.split_pattern(self.text, WILDCARDS)[0] if self.is_pattern else self.text

    def files(self) -> list[DataFile]:
        """The current files, sorted by name; OperationalError if there are none."""
        try:
            found = self._find()
        except OSError as error:
            raise unreadable(self.text, error) from error
        except Exception as error:
            if isinstance(self.text, RemotePath) and not isinstance(error, Error):
                raise unreadable(self.text, error) from error
            raise
        if not found and not self.ignore_missing:
            raise self._nothing()
        return found

    def _find(self) -> list[DataFile]:
        if self.is_pattern:
            return file_system.matching(*file_system.split_pattern(self.text, WILDCARDS))
        if self.is_folder():
            if self.glob is not None:
                return file_system.matching(self.text, self.glob)
            return [
                item
                for item in file_system.matching(self.text, "**/*" if self.has_subfolders else "*")
                if not Path(item.path).name.startswith("_")
            ]
        if not file_system.exists(self.text):
            return []
        if self.is_folder():
            return self._find()  # it was created after the first check
        if self.glob is not None:
            raise ProgrammingError(
                f'option "glob" is given, but "{self.text}" is not a folder',
                hint='leave "glob" out',
            )
        text = file_system.seekable(self.text)
        return [DataFile(text, file_system.size_of(text))]

    def _nothing(self) -> OperationalError:
        ignoring = "; with OPTIONS ('ignoreFileNotFound' = 'true') it counts as empty"
        if self.is_pattern:
            message = f'no file matches the pattern "{self.text}"'
            return OperationalError(
                message, code=ErrorCode.OBJECT_NOT_FOUND, hint="correct the pattern" + ignoring
            )
        if self.is_folder():
            which = (
                "has no files to read"
                if self.glob is None
                else f'has no file that matches "{self.glob}"'
            )
            return OperationalError(
                f'folder "{self.text}" {which}',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint="correct the path or glob" + ignoring,
            )
        return missing(self.text)


def file_path(
    text: str,
    glob: str | None,
    *,
    ignore_missing: bool,
    storage: Mapping[str, str] | None = None,
    access: Access | None = None,
) -> FilePath:
    """The options as an absolute path, checked as far as possible without reading the disk.

    With `access`, the path must be one that it allows.
    """
    if "\0" in text:
        raise ProgrammingError('option "path" of connector File has a NUL character')
    if glob is not None and (Path(glob).is_absolute() or ".." in Path(glob).parts or "\0" in glob):
        raise ProgrammingError(
            f"wrong value '{glob}' for option \"glob\" of connector File",
            hint="it accepts a pattern of names below the path, such as '*.csv' or '**/*.csv'",
        )
    absolute = file_system.absolute_path(text, storage or {}, access)
    return FilePath(absolute, glob, ignore_missing, written=text)


def _is_relative(written: str) -> bool:
    return not (Path(written).is_absolute() or written.startswith("~") or "://" in written)


def called_paths(
    example: str, positional: Sequence[Any], named: Mapping[str, Any], access: Access | None
) -> list[FilePath]:
    """The paths of a table function that accepts one path, or a list of paths, and nothing else.
    `example`: a call of the function, for the hint."""
    patterns = positional[0] if len(positional) == 1 else None
    if isinstance(patterns, str):
        patterns = [patterns]
    if named or not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
        raise ProgrammingError(
            f"{example.partition('(')[0]} needs one path, or a list of paths",
            hint=f"write {example}",
        )
    return [file_path(text, None, ignore_missing=False, access=access) for text in patterns]


def missing(path: str) -> OperationalError:
    """The error for a path that does not exist, with the nearest name in its folder."""
    if isinstance(path, RemotePath):
        return OperationalError(
            f'file or folder "{path}" not found', code=ErrorCode.OBJECT_NOT_FOUND
        )
    parent = Path(path).parent
    hint = None
    if isinstance(path, ConfinedPath) and not path.access.covers(os.path.realpath(parent)):
        return OperationalError(
            f'file or folder "{path}" not found', code=ErrorCode.OBJECT_NOT_FOUND
        )
    if parent.is_dir():
        try:
            hint = suggest(Path(path).name, [item.name for item in parent.iterdir()])
        except OSError:
            hint = None
    else:
        hint = f'there is no folder "{parent}" either'
    if Path(path).name == "-":
        hint = "the standard input is '/dev/stdin'"
    return OperationalError(
        f'file or folder "{path}" not found', code=ErrorCode.OBJECT_NOT_FOUND, hint=hint
    )


def unreadable(path: str, error: Exception) -> OperationalError:
    """The error for a file that cannot be read, with the system's message."""
    reason = getattr(error, "strerror", None)
    if isinstance(path, RemotePath):
        detail = str(error) or type(error).__name__
        return IOException(
            f'file "{path}" can\'t be read',
            detail=detail,
            hint="does the URL exist, and may you read it?",
        )
    hint = None if reason else "the file is damaged, cut off or not yet finished"
    return IOException(f'file "{path}" can\'t be read', detail=reason or str(error), hint=hint)
