"""The names of error classes and codes in files and messages.

The names are stored: a class or code that is renamed keeps its name here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runnel.errors import Error, ErrorCode, FetchTimeoutError


def _below(kind: type[Error]) -> Iterator[type[Error]]:
    yield kind
    for item in kind.__subclasses__():
        yield from _below(item)


CLASSES: Mapping[str, type[Error]] = {
    item.__name__: item
    for item in _below(Error)
    if item.__module__ in ("runnel", "runnel.errors") and item is not FetchTimeoutError
}
"""The classes of `errors` by stored name."""

CODES: Mapping[str, ErrorCode] = {
    "GENERIC": ErrorCode.GENERIC,
    "CONNECTION_PROBLEM": ErrorCode.CONNECTION_PROBLEM,
    "CANCELLED": ErrorCode.CANCELLED,
    "TIMEOUT": ErrorCode.TIMEOUT,
    "PARSING": ErrorCode.PARSING,
    "INDEX_INVALID": ErrorCode.INDEX_INVALID,
    "OBJECT_NOT_FOUND": ErrorCode.OBJECT_NOT_FOUND,
    "RESTARTABLE": ErrorCode.RESTARTABLE,
    "DATA_EXCEPTION": ErrorCode.DATA_EXCEPTION,
    "DUPLICATE_KEY": ErrorCode.DUPLICATE_KEY,
    "NOT_SUPPORTED": ErrorCode.NOT_SUPPORTED,
    "INPUT_OUTPUT": ErrorCode.INPUT_OUTPUT,
    "INTERFACE": ErrorCode.INTERFACE,
    "INTERNAL": ErrorCode.INTERNAL,
    "OUT_OF_MEMORY": ErrorCode.OUT_OF_MEMORY,
    "POSITION_EXPIRED": ErrorCode.POSITION_EXPIRED,
    "NOT_ALLOWED": ErrorCode.NOT_ALLOWED,
}
"""The codes by stored name."""

_CLASS_NAMES = {kind: name for name, kind in CLASSES.items()}
_CODE_NAMES = {code: name for name, code in CODES.items()}


def class_name(error: Error) -> str:
    """Return the stored name of an error's class.

    FetchTimeoutError, and a class of another module, gets the name of its nearest base class.
    """
    return next(_CLASS_NAMES[kind] for kind in type(error).__mro__ if kind in _CLASS_NAMES)


def code_name(code: ErrorCode) -> str:
    """Return the stored name of a code."""
    return _CODE_NAMES[code]
