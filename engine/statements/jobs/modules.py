"""Python modules of a job: their sources are stored with it, and create the functions of its query
in another process.

A module imports only installed packages, and has a function `register(connection)` that calls
`connection.create_function` or `create_aggregate`. A function that exists is not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from runnel.errors import Error, ErrorCode, OperationalError, ProgrammingError, suggest
from runnel.session.functions import FunctionOptions, create_function

if TYPE_CHECKING:
    from runnel.access import Access
    from runnel.session.session import Session

ENTRY = "register"


class FunctionRegistrar:
    """The connection as a module sees it. A function that exists is not replaced."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        **options: Any,
    ) -> None:
        """As `Connection.create_function`."""
        if not self._has(name):
            made = FunctionOptions(**options)
            create_function(self._session, name, function, parameter_types, return_type, made)

    def create_aggregate(
        self,
        name: str,
        function: Callable[..., Any],
        parameter_types: Sequence[Any],
        return_type: Any,
        **options: Any,
    ) -> None:
        """As `Connection.create_aggregate`."""
        if not self._has(name):
            made = FunctionOptions(**options, is_aggregate=True)
            create_function(self._session, name, function, parameter_types, return_type, made)

    def _has(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in {
            key.lower() for key in self._session.catalog.functions
        }


def read_modules(paths: Iterable[str], access: Access | None) -> dict[str, str]:
    """The sources of modules by name; each was loaded once. A caller with bounds passes the names
    of modules that the bounds list, instead of paths."""
    sources: dict[str, str] = {}
    for text in paths:
        name, source = _read(text) if access is None else _known(text, access)
        if name in sources:
            raise ProgrammingError(
                f'two modules are called "{name}"', hint="give their files names of their own"
            )
        sources[name] = source
        _loaded(name, source)
    return sources


def _read(text: str) -> tuple[str, str]:
    path = Path(text)
    try:
        return path.stem, path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OperationalError(f'module "{text}" can\'t be read', detail=reason) from error


def _known(name: str, access: Access) -> tuple[str, str]:
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


def load_modules(session: Session, sources: Mapping[str, str]) -> None:
    """Calls the modules, which create their functions."""
    for name, source in sources.items():
        module = _loaded(name, source)
        try:
            getattr(module, ENTRY)(FunctionRegistrar(session))
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
            hint=(
                "write one that calls connection.create_function for each function of the job's "
                "query"
            ),
        )
    return module


def _failed(name: str, error: Exception) -> ProgrammingError:
    return ProgrammingError(
        f'module "{name}" can\'t be loaded',
        code=ErrorCode.GENERIC,
        detail=f"{type(error).__name__}: {error}",
    )
