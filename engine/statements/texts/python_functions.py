"""CREATE FUNCTION … LANGUAGE PYTHON: a function of a module that this process can import, as
`Connection.create_function` registers it. It is not stored with the connection."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from runnel.errors import NotSupportedError, ProgrammingError, exception_text
from runnel.planner.parse.flink.definitions import CreateFunction
from runnel.session.function_signature import signature_of
from runnel.session.functions import create_function
from runnel.session.python_function import FunctionOptions
from runnel.statements.call import StatementCall

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def create_python_function(session: Session, statement: CreateFunction, call: StatementCall) -> int:
    """Imports the module, and registers its function. Only for the owner of a connection without
    bounds in this process, whose code could import the module as well."""
    session.caller.require_owner("Python functions")
    session.caller.require_no_bounds("Python functions")
    if session.prepared is None:
        raise NotSupportedError(
            "CREATE FUNCTION is not supported through a server",
            detail="it would import a module into the process of the server",
            hint="pass the module to a job: CREATE JOB … OPTIONS ('modules' = '…')",
            position=statement.position,
        )
    name = statement.name.text
    if statement.if_not_exists and name.lower() in session.catalog.functions:
        return NO_COUNT
    function = _imported(statement)
    options = FunctionOptions(None, None)
    create_function(session, name, function, *signature_of(function, None, None, options, {}))
    return NO_COUNT


def _imported(statement: CreateFunction) -> Callable[..., Any]:
    """The function that the statement names."""
    identifier = statement.identifier
    module, _, attribute = identifier.text.rpartition(".")
    try:
        found = attrgetter(attribute)(import_module(module))
    except (Exception, SystemExit) as error:  # the module's own code runs
        raise ProgrammingError(
            f"function '{identifier.text}' can't be imported",
            detail=exception_text(error),
            hint="the folder of the module must be in sys.path of this process",
            position=identifier.position,
        ) from error
    if not callable(found) or isinstance(found, type):
        raise ProgrammingError(
            f"'{identifier.text}' is not a function", position=identifier.position
        )
    return found  # type: ignore[no-any-return]
