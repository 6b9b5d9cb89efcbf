"""Python modules of a job: their sources are kept with it, and make the functions of its query anew in another process.

A module stands for itself: it imports what is installed, and has a function `register(connection)` that calls
`connection.create_function` or `create_aggregate`. A function that the connection has already is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runnel.connection import Connection
from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError

if TYPE_CHECKING:
    from runnel.database import Database

ENTRY = "register"


class ModuleConnection(Connection):
    """What a module is given: the connection, on which a function that is there already isn't made again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_function(self, name: str, *arguments: Any, **options: Any) -> None:
        if not self._has(name):
            super().create_function(name, *arguments, **options)

    def create_aggregate(self, name: str, *arguments: Any, **options: Any) -> None:
        if not self._has(name):
            super().create_aggregate(name, *arguments, **options)

    def _has(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in {key.lower() for key in self._database.catalog.snapshot.functions}


def read_modules(paths: Iterable[str]) -> dict[str, str]:
    """The sources of modules by name, each found sound."""
    sources = {}
    for text in paths:
        path = Path(text)
        try:
            source = path.read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise OperationalError(f'module "{text}" can\'t be read', detail=reason) from error
        if path.stem in sources:
            raise ProgrammingError(f'two modules are called "{path.stem}"', hint="give their files names of their own")
        sources[path.stem] = source
        _loaded(path.stem, source)
    return sources


def load_modules(database: Database, sources: Mapping[str, str]) -> None:
    """Has modules make their functions."""
    for name, source in sources.items():
        module = _loaded(name, source)
        try:
            getattr(module, ENTRY)(ModuleConnection(database))
        except Error:
            raise
        except Exception as error:
            raise _failed(name, error) from error


def _loaded(name: str, source: str) -> ModuleType:
    module = ModuleType(name)
    try:
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    except Exception as error:
        raise _failed(name, error) from error
    if not callable(getattr(module, ENTRY, None)):
        raise ProgrammingError(
            f'module "{name}" has no function {ENTRY}(connection)',
            hint="write one that calls connection.create_function for each function of the job's query",
        )
    return module


def _failed(name: str, error: Exception) -> ProgrammingError:
    return ProgrammingError(
        f'module "{name}" can\'t be loaded', code=ErrorCode.GENERIC, detail=f"{type(error).__name__}: {error}"
    )
