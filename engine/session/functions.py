"""`create_function`, `create_aggregate`, `drop_function`: change the functions of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runnel.errors import DuplicateObject, ErrorCode, UndefinedFunction, suggest
from runnel.session.python_function import FunctionOptions, python_function

if TYPE_CHECKING:
    from runnel.session.session import Session


def create_function(
    session: Session,
    name: str,
    function: Callable[..., Any],
    parameter_types: Sequence[Any],
    return_type: Any,
    options: FunctionOptions,
) -> None:
    """Adds a function to the catalog. InterfaceError for arguments of wrong classes,
    ProgrammingError for a name that is in use."""
    made = python_function(name, function, parameter_types, return_type, options)
    with session.definitions:
        if made.name.lower() in session.catalog.functions and not options.replace:
            raise DuplicateObject(
                f'function "{name}" exists already', hint="pass replace=True, or drop it first"
            )
        session.put_function(made)


def drop_function(session: Session, name: str) -> None:
    """Removes a function from the catalog. ProgrammingError if there is none of that name."""
    with session.definitions:
        known = session.catalog.functions
        if not isinstance(name, str) or name.lower() not in known:
            raise UndefinedFunction(
                f'function "{name}" not found',
                code=ErrorCode.OBJECT_NOT_FOUND,
                hint=suggest(
                    str(name),
                    [item.name for item in known.values()],
                    "only functions of your own can be dropped",
                ),
            )
        session.remove_function(name)
