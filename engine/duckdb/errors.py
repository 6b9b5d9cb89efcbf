"""Translates DuckDB's exceptions into Runnel's errors.

While a query starts, DuckDB raises a class for each kind of failure. While rows are read, only the
first words of the message name the kind. `translated` therefore reads the message in both cases.
"""

from __future__ import annotations

import re

from runnel.errors import (
    ERROR_MARK,
    DataError,
    Error,
    ErrorCode,
    IntegrityError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

_KINDS: dict[str, tuple[type[Error], str]] = {
    "Out of Range Error": (DataError, "a value is out of the range of its type"),
    "Conversion Error": (DataError, "a value can't be converted"),
    "Constraint Error": (IntegrityError, "a constraint is violated"),
    "Out of Memory Error": (OperationalError, "out of memory"),
    "IO Error": (OperationalError, "input or output failed"),
    "HTTP Error": (OperationalError, "input or output failed"),
    "Permission Error": (OperationalError, "input or output failed"),
    "TransactionContext Error": (OperationalError, "the transaction failed"),
    "Transaction Error": (OperationalError, "the transaction failed"),
    "Catalog Error": (ProgrammingError, "a table or column of DuckDB no longer exists"),
    "Binder Error": (ProgrammingError, "a table or column of DuckDB has changed"),
    "Not implemented Error": (NotSupportedError, "DuckDB can't do this"),
}

_REMEDIES = {
    "Out of Memory Error": (
        "raise memory_limit, or SET pushdown = off: Runnel's operators need less memory, "
        "because they spill more to files"
    ),
}

_REFUSALS = ("Binder Error", "Not implemented Error")

_ADVICE = re.compile(r"\.?\s*(?:Use TRY\(|Possible solutions:|See also https:).*", re.DOTALL)
"""DuckDB's advice to its user, at the end of a message; it does not apply to Runnel's user."""


def translated(error: BaseException) -> Error:
    """The error to raise for an exception that DuckDB raised; an `Error` is returned unchanged."""
    if isinstance(error, Error):
        return error
    if isinstance(error, MemoryError):
        return OperationalError(
            "out of memory", code=ErrorCode.OUT_OF_MEMORY, hint=_REMEDIES["Out of Memory Error"]
        )
    if isinstance(error, ImportError):
        return OperationalError(
            "DuckDB isn't installed",
            code=ErrorCode.GENERIC,
            detail=str(error),
            hint="pip install runnel[duckdb]",
        )
    text = _ADVICE.sub("", _without_excerpt(str(error)))
    kind, _, said = text.partition(": ")
    if ERROR_MARK in text:
        return DataError(text.partition(ERROR_MARK)[2].strip())
    if kind == "INTERRUPT Error":
        return OperationalError("the job was cancelled", code=ErrorCode.CANCELLED)
    if kind == "Invalid Input Error":
        return _invalid_input(said)
    if kind == "Binder Error" and "generated column" in said:
        return NotSupportedError(
            "a column that DuckDB computes can't be written",
            detail=text,
            hint="tables with such columns support INSERT, UPDATE and DELETE, but no ON CONFLICT, "
            "MERGE and RETURNING",
        )
    known = _KINDS.get(kind)
    if known is not None:
        made, message = known
        code = ErrorCode.OUT_OF_MEMORY if kind == "Out of Memory Error" else None
        failure = made(message, code=code, detail=text, hint=_REMEDIES.get(kind))
        failure.is_refusal = kind in _REFUSALS
        return failure
    if isinstance(error, OSError):
        return OperationalError("input or output failed", detail=f"{type(error).__name__}: {text}")
    return InternalError(
        "internal error: DuckDB failed",
        detail=f"{type(error).__name__}: {text}",
        hint="please report this with the statement; SET pushdown = off runs it without DuckDB",
    )


def _invalid_input(said: str) -> Error:
    """The error for DuckDB's "Invalid Input Error". Its cause is mostly in the data: a division by
    zero, a malformed text, an overflow."""
    if said.startswith("Division by zero") or "division by zero" in said.lower():
        return DataError("division by zero", detail=said)
    own = re.search(r"Python exception occurred.*?: (.*)", said, re.DOTALL)
    if own is not None:
        return OperationalError(
            "reading the rows of another source failed",
            detail=own.group(1).strip(),
        )
    return DataError("a value is out of the range of its type or function", detail=said)


def _without_excerpt(text: str) -> str:
    """The message without the lines that quote the generated SQL, which the user did not write."""
    lines = []
    for line in text.split("\n"):
        if re.match(r"LINE \d+: ", line):
            break
        lines.append(line)
    return "\n".join(lines).strip()
