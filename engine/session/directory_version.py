"""The version of a directory's format, in its file `directory.json`.

The version covers all files of the directory. It is checked before any other file is read or
written. Directories from before the file have version 1.

| version | change |
|---|---|
| 1 | no `directory.json` |
| 2 | `directory.json`; all other files are as in version 1 |
| 3 | tables of CREATE TABLE in `catalog.json` |
| 4 | macros and sequences in `catalog.json`, as "definitions" |
| 5 | "identities" and "computed" of tables in `catalog.json` |
| 6 | "schema" of tables, and "schema" and "path" of views, in `catalog.json` |

A Runnel from before `directory.json` reads the number "format" of `catalog.json` first. Therefore a
version whose files such a Runnel would misread also has a new number in `catalog.json`, and its
upgrade writes that file, also if there is none. Such a Runnel refuses the catalog of version 3 and
therefore of all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, OperationalError
from runnel.storage.durable_files import replace_file, sealed, unsealed

FILE = "directory.json"
VERSION = 6
"""The version that this Runnel writes."""

CATALOG = "catalog.json"
CATALOG_FORMAT = 3
"""The version of the catalog file's format. Version 1 had no checksum, version 2 no tables."""


def _with_new_catalog(path: Path) -> None:
    """Writes the catalog with the number of its new format. A file that cannot be read stays as it
    is: `Directory.load` reports it."""
    content: Any = {"mappings": [], "views": [], "indexes": [], "connections": []}
    with suppress(FileNotFoundError):
        try:
            content = unsealed((path / CATALOG).read_bytes(), 2, CATALOG_FORMAT)
            if content["format"] not in (1, 2):
                return
        except (ValueError, KeyError, TypeError, AttributeError):
            return
    replace_file(path / CATALOG, sealed({**content, "format": CATALOG_FORMAT}))


UPGRADES: Mapping[int, Callable[[Path], None]] = MappingProxyType({2: _with_new_catalog})
"""By version: changes the files of a directory of that version to the next version. May be
interrupted and called again. A version without an entry needs no change."""


@frozen
class Origin:
    """The directory of which a directory is a backup.

    path: absolute path of that directory.
    time: when the backup was made, in microseconds since 1970.
    """

    path: str
    time: int


@frozen
class DirectoryRecord:
    """The content of `directory.json`.

    version: version of the format.
    written_by: version of the Runnel that wrote the file.
    origin: the original of a backup; None: the directory is not a backup.
    """

    version: int = VERSION
    written_by: str = ""
    origin: Origin | None = None


def read_record(path: Path) -> DirectoryRecord:
    """The record of the directory `path`, which need not exist; OperationalError if its version is
    newer than VERSION, or if the file cannot be read."""
    try:
        data = (path / FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return DirectoryRecord(version=1)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    try:
        content = unsealed(data, *range(2, VERSION + 1))
        version, written_by = int(content["format"]), str(content.get("written_by", "unknown"))
        if version > VERSION:
            raise _newer(path, version, written_by)
        if version < 2:
            raise ValueError(f"its format is {version}")
        origin = content["backup_of"]
        return DirectoryRecord(
            version,
            written_by,
            None if origin is None else Origin(str(origin["path"]), int(origin["time"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if type(error) is ValueError else "its content is not as expected"
        raise _unreadable(path, reason) from error


def write_record(path: Path, record: DirectoryRecord) -> None:
    """Replaces the record of a directory. Raises OSError."""
    replace_file(path / FILE, encoded(record))


def encoded(record: DirectoryRecord) -> str:
    """The text of a record, with the version of this Runnel."""
    # Imported here: it is slow, and the record is written once for a directory.
    from importlib.metadata import version

    origin = record.origin
    return sealed(
        {
            "format": record.version,
            "written_by": version("runnel"),
            "backup_of": None if origin is None else {"path": origin.path, "time": origin.time},
        }
    )


def upgrade(path: Path, record: DirectoryRecord) -> None:
    """Changes a locked directory to VERSION. The record is written last: if the upgrade is
    interrupted, the next opening repeats it. Raises OSError."""
    if record.version == VERSION:
        return
    for version in range(record.version, VERSION):
        change = UPGRADES.get(version)
        if change is not None:
            change(path)
    write_record(path, replace(record, version=VERSION))


def _newer(path: Path, version: int, written_by: str) -> OperationalError:
    return OperationalError(
        f'directory "{path}" has version {version} of the format of directories; '
        f"this Runnel can open versions up to {VERSION}",
        code=ErrorCode.NOT_SUPPORTED,
        detail=f"it was written by Runnel {written_by}; nothing was changed",
        hint="open it with that Runnel or a later one; "
        "to go back, restore a backup that was made before the upgrade",
    )


def _unreadable(path: Path, reason: str) -> OperationalError:
    return OperationalError(
        f'the version of directory "{path}" can\'t be read',
        code=ErrorCode.GENERIC,
        detail=f"{FILE}: {reason}",
        hint="restore the directory from a backup",
    )
