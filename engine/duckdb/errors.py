"""Translates DuckDB's exceptions into Runnel's errors.

While a query starts, DuckDB raises a class for each kind of failure. While rows are read, only the
first words of the message name the kind. `translated` therefore reads the message in both cases.
"""

from __future__ import annotations

import re

from runnel.errors import (
    ERROR_MARK,
    CastOutOfRange,
    CheckViolation,
    ConversionException,
    DataError,
    DivisionByZero,
    Error,
    ErrorCode,
    ForeignKeyViolation,
    IntegrityError,
    InternalError,
    InvalidTextRepresentation,
    IOException,
    NotNullViolation,
    NotSupportedError,
    OperationalError,
    OutOfRangeException,
    ProgrammingError,
    TransactionException,
    UniqueViolation,
)

_KINDS: dict[str, tuple[type[Error], str]] = {
    "Constraint Error": (IntegrityError, "a constraint is violated"),
    "Out of Range Error": (OutOfRangeException, "a value is out of the range of its type"),
    "Conversion Error": (ConversionException, "a value can't be converted"),
    "Out of Memory Error": (OperationalError, "out of memory"),
    "IO Error": (IOException, "input or output failed"),
    "HTTP Error": (IOException, "input or output failed"),
    "Permission Error": (IOException, "input or output failed"),
    "TransactionContext Error": (TransactionException, "the transaction failed"),
    "Transaction Error": (TransactionException, "the transaction failed"),
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

_CAUSES: dict[str, dict[str, type[Error]]] = {
    "Constraint Error": {
        "Violates foreign key": ForeignKeyViolation,
        "NOT NULL constraint failed": NotNullViolation,
        "CHECK constraint failed": CheckViolation,
        "Duplicate key": UniqueViolation,
        "duplicate key": UniqueViolation,
    },
    "Conversion Error": {
        "out of range": CastOutOfRange,
        "convert string": InvalidTextRepresentation,
    },
}
"""More exact classes for some kinds, by words of the message."""

_MARKED: dict[str, type[DataError]] = {
    "division by zero": DivisionByZero,
    "overflow while converting": CastOutOfRange,
    "cannot parse": InvalidTextRepresentation,
    "cannot convert": ConversionException,
    "overflow": OutOfRangeException,
    "out of range": OutOfRangeException,
}
"""The class of an error that generated SQL raises, by words of its message."""

_REFUSALS = ("Binder Error", "Not implemented Error")

_ADVICE = re.compile(r"\.?\s*(?:Use TRY\(|Possible solutions:|See also https:).*", re.DOTALL)
"""DuckDB's advice to its user, at the end of a message; it does not apply to Runnel's user."""


def translated(error: BaseException) -> Error:
    """The error to raise for an exception that DuckDB raised; an `Error` is returned unchanged.
    Raises KeyboardInterrupt for Ctrl-C, which DuckDB reports as a RuntimeError."""
    if isinstance(error, Error):
        return error
    if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
        raise KeyboardInterrupt from error
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
        return marked(text.partition(ERROR_MARK)[2].strip())
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
        made = next(
            (cause for words, cause in _CAUSES.get(kind, {}).items() if words in said), made
        )
        code = ErrorCode.OUT_OF_MEMORY if kind == "Out of Memory Error" else None
        failure = made(message, code=code, detail=text, hint=_REMEDIES.get(kind))
        failure.is_refusal = kind in _REFUSALS
        return failure
    if isinstance(error, OSError):
        return IOException("input or output failed", detail=f"{type(error).__name__}: {text}")
    return InternalError(
        "internal error: DuckDB failed",
        detail=f"{type(error).__name__}: {text}",
        hint="please report this with the statement; SET pushdown = off runs it without DuckDB",
    )


def marked(message: str, detail: str | None = None) -> DataError:
    """The error that generated SQL raises in another engine with this message."""
    for words, kind in _MARKED.items():
        if words in message:
            return kind(message, detail=detail)
    return DataError(message, detail=detail)


def _invalid_input(said: str) -> Error:
    """The error for DuckDB's "Invalid Input Error". Its cause is mostly in the data: a division by
    zero, a malformed text, an overflow."""
    if said.startswith("Division by zero") or "division by zero" in said.lower():
        return DivisionByZero("division by zero", detail=said)
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
