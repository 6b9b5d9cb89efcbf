"""Data frames that a statement names by a variable of the code that executes it: `FROM df`.

Imported only when a statement names an object that the catalog does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

import pyarrow as pa

from runnel.catalog import Registration
from runnel.results.calls import CAPTURED

_Result = TypeVar("_Result")

_ASYNC_CALLER: ContextVar[FrameType | None] = ContextVar("caller", default=None)
_PACKAGE = __name__.partition(".")[0]
_PARTS_OF_A_FUNCTION = ("<listcomp>", "<dictcomp>", "<setcomp>")
"""Code with a frame of its own (before Python 3.12) that runs within the frame of its function."""

_FRAMES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table", "RecordBatch", "RecordBatchReader"),
    "pyarrow.dataset": ("Dataset",),
}
"""The classes of data frames, by the module that has them if it was imported."""


def variable_table(name: str) -> Registration | None:
    """The data frame that the caller's variable of that name refers to, as a table; None if there
    is none. Local variables are before global ones."""
    from runnel.connectors.arrow.tables import registered_table

    captured = CAPTURED.get()
    if captured is not None and name in captured:
        value = captured[name]
        data = _rows_of(value, name)
        return Registration(name, registered_table(name, value if data is None else data))
    for value in _values(name):
        data = value if _is_frame(value) else _rows_of(value, name)
        if data is not None:
            if captured is not None:
                captured[name] = value
            return Registration(name, registered_table(name, data))
    return None


def variable_hint(name: str) -> str | None:
    """The hint for a name that is not found: a variable that is no data frame, or a data frame with
    a similar name; None if there is neither."""
    from runnel.errors import suggest

    for value in _values(name):
        if not isinstance(value, type(sys)) and not callable(value):
            return (
                f'the variable "{name}" is a {type(value).__name__}: FROM reads data frames of '
                "pandas and Polars, Arrow tables, batches, readers and datasets, and cursors"
            )
    frame = caller()
    if frame is None:
        return None
    variables = {**frame.f_globals, **frame.f_locals}
    return suggest(name, [key for key, value in variables.items() if _is_frame(value)])


def called_for(
    frame: FrameType | None, function: Callable[..., _Result], *arguments: Any
) -> _Result:
    """Calls a function on this thread, on behalf of a coroutine with that frame."""
    token = _ASYNC_CALLER.set(frame)
    try:
        return function(*arguments)
    finally:
        _ASYNC_CALLER.reset(token)


def _values(name: str) -> list[Any]:
    """The values of the caller's variables of that name, the local one first."""
    frame = caller()
    if frame is None:
        return []
    return [scope[name] for scope in (frame.f_locals, frame.f_globals) if name in scope]


def caller() -> FrameType | None:
    """The innermost frame of this thread outside of Runnel."""
    frame = _ASYNC_CALLER.get() or sys._getframe()
    while frame is not None and (
        str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
        or frame.f_code.co_name in _PARTS_OF_A_FUNCTION
    ):
        frame = frame.f_back  # type: ignore[assignment]
    return frame


def _rows_of(value: Any, name: str) -> Any:
    """The reader of the rows of a cursor of Runnel; None for another value."""
    is_cursor = type(value).__module__ == _PACKAGE and hasattr(type(value), "rows_in_sql")
    return value.rows_in_sql(name) if is_cursor else None


def _is_frame(value: Any) -> bool:
    """Whether a value is a data frame. Imports no package: a frame's package is imported."""
    if isinstance(value, pa.Table):
        return True
    modules = sys.modules
    for module, names in _FRAMES.items():
        found = modules.get(module)
        if found is not None:
            classes = tuple(kind for name in names if (kind := getattr(found, name, None)))
            if isinstance(value, classes):
                return True
    return False
