"""The sources that the option 'modules' of a job names: files, packages and archives.

The result is the source of each module by its dotted name; the module of a package itself has the
name `package.__init__`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import decode_source
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZipFile

from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError, suggest

if TYPE_CHECKING:
    from runnel.access import Access

ARCHIVES = (".zip", ".whl", ".pyz")
MOST_BYTES = 8 << 20
"""Maximum size in bytes of all sources of a job, which its record contains."""
INIT = "__init__"
_COMPILED = (".so", ".pyd", ".dylib", ".dll")


def read_sources(paths: Iterable[str], access: Access | None) -> dict[str, str]:
    """The sources by dotted name. ProgrammingError if two modules have the same name, or a path
    names no Python code; OperationalError if a file cannot be read. A caller with bounds passes the
    names of modules that the bounds list, instead of paths."""
    sources: dict[str, str] = {}
    owners: dict[str, str] = {}
    size = 0
    for text in paths:
        for name, source in _read(text) if access is None else [_listed(text, access)]:
            top = name.partition(".")[0]
            if name in sources or owners.setdefault(top, text) != text:
                raise ProgrammingError(
                    f'two modules are called "{top}"', hint="give their files names of their own"
                )
            sources[name] = source
            size += len(source)
            if size > MOST_BYTES:
                raise ProgrammingError(
                    f"the modules of the job have more than {MOST_BYTES >> 20} MiB of source",
                    detail=f'at "{text}"',
                    hint="install large packages, and name only the job's own modules",
                )
    return sources


def _read(text: str) -> Iterator[tuple[str, str]]:
    path = Path(text)
    try:
        if path.is_dir():
            return iter(_package(path))
        if path.suffix in ARCHIVES:
            return iter(_archive(path))
        if "." in path.stem:
            raise _not_importable(path.name, str(path.parent))
        return iter([(path.stem, decode_source(path.read_bytes()))])
    except Error:
        raise
    except Exception as error:  # of zip archives: any error of their codecs
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OperationalError(
            f'module "{text}" can\'t be read',
            detail=reason,
            hint="name a package, a .py file or an archive (.zip, .whl) that Python can import",
        ) from error


def _package(folder: Path) -> list[tuple[str, str]]:
    if not (folder / f"{INIT}.py").is_file():
        raise ProgrammingError(
            f'folder "{folder}" is not a Python package',
            detail=f"it has no {INIT}.py",
            hint="name a package, a .py file or an archive (.zip, .whl)",
        )
    parts = {
        PurePosixPath(folder.name, item.relative_to(folder).as_posix()): item
        for item in sorted(folder.rglob("*"))
        if item.is_file()
    }
    return [
        (_dotted(name, str(folder)), decode_source(parts[name].read_bytes()))
        for name in _python_files(parts, str(folder))
    ]


def _archive(path: Path) -> list[tuple[str, str]]:
    with ZipFile(path) as archive:
        sizes = {PurePosixPath(item.filename): item for item in archive.infolist()}
        names = list(_python_files(sizes, str(path)))
        if sum(sizes[name].file_size for name in names) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB of source")
        found = [
            (_dotted(name, str(path)), decode_source(archive.read(sizes[name]))) for name in names
        ]
    if not found:
        raise ProgrammingError(
            f'archive "{path}" has no Python module',
            hint="put .py files and packages at its root",
        )
    return found


def _python_files(paths: Iterable[PurePosixPath], owner: str) -> Iterator[PurePosixPath]:
    """The paths of Python files; ProgrammingError for compiled modules."""
    for path in paths:
        if path.suffix in _COMPILED:
            raise ProgrammingError(
                f'"{owner}" has compiled code, which can\'t be stored with a job',
                detail=f'it is "{path}"',
                hint="install the package, and name only the job's own modules",
            )
        if path.suffix == ".py":
            yield path


def _dotted(path: PurePosixPath, owner: str) -> str:
    """The module name of a path in a package or archive: `a/b.py` is a.b."""
    parts = path.with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        raise _not_importable(path, owner)
    return ".".join(parts)


def _not_importable(path: object, owner: str) -> ProgrammingError:
    return ProgrammingError(
        f'"{path}" in "{owner}" can\'t be imported',
        detail="its name is not an identifier",
        hint="rename it, or remove it from what the option names",
    )


def _listed(name: str, access: Access) -> tuple[str, str]:
    """A module that the bounds list; ProgrammingError if its file has changed since."""
    found = next((item for item in access.modules if item.name == name), None)
    if found is None:
        raise ProgrammingError(
            f'module "{name}" can\'t be used',
            code=ErrorCode.NOT_ALLOWED,
            detail=(
                "code comes only from the folder that the server's owner named, "
                "and is given by its name"
            ),
            hint=suggest(
                name,
                [item.name for item in access.modules],
                "runnel serve … --modules FOLDER names the folder",
            ),
        )
    try:
        is_same = Path(found.path).read_text("utf-8") == found.source
    except (OSError, ValueError):
        is_same = False
    if not is_same:
        raise ProgrammingError(
            f'module "{name}" was changed since the server looked at it',
            code=ErrorCode.NOT_ALLOWED,
            hint="the owner starts the server again",
        )
    return found.name, found.source
