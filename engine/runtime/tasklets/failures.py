"""Conversion of the exceptions of processors to errors of the PEP 249 tree, which say where a
failure occurred and what caused it: Runnel, the user's code or the environment."""

from __future__ import annotations

import threading

from runnel.errors import DataError, Error, ErrorCode, OperationalError, exception_text, internal


def vertex_failure(error: BaseException, vertex: str, is_hand_built: bool) -> Error:
    """The error with which the job ends.

    A PEP 249 error is unchanged, except that its detail names the vertex. In a hand-built DAG other
    exceptions are attributed to the user's code; in a planned one they are a fault of Runnel,
    except for lack of memory and failing input and output.
    """
    where = f'in vertex "{vertex}"'
    if isinstance(error, Error):
        if error.detail is None:
            error.detail = where
        elif where not in error.detail:
            error.detail = f"{error.detail}; {where}"
        return error
    failure = _foreign_failure(error, vertex, where, is_hand_built)
    failure.__cause__ = error
    return failure


_TOO_MUCH = (
    "offset overflow while concatenating arrays",
    "array cannot contain more than 2147483646 bytes",
)
"""Arrow's messages when the values of an array exceed its capacity."""


def _foreign_failure(error: BaseException, vertex: str, where: str, is_hand_built: bool) -> Error:
    said = exception_text(error)
    if isinstance(error, MemoryError):
        return OperationalError(
            "out of memory",
            code=ErrorCode.GENERIC,
            detail=f"{where}: {said}",
            hint="read or group less at a time",
        )
    if any(words in said for words in _TOO_MUCH):
        return DataError(
            "the values of a column need more than 2 GB at a time",
            detail=where,
            hint=(
                "make them shorter, or let fewer of them come together: in one group, one sort or "
                "one aggregated value"
            ),
        )
    if is_hand_built:
        return OperationalError(
            f'vertex "{vertex}" failed: {said}', code=ErrorCode.GENERIC, detail=where
        )
    if isinstance(error, OSError):
        return OperationalError(f"input or output failed: {said}", detail=where)
    return internal(said, detail=where)


def is_interrupt(error: BaseException) -> bool:
    """Whether this is the user's Ctrl-C, which propagates to the caller and is not a failure of the
    processor."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
    )


def cancelled() -> OperationalError:
    return OperationalError("the job was cancelled", code=ErrorCode.CANCELLED)


def timed_out(nanoseconds: int) -> OperationalError:
    return OperationalError(
        f"the statement took longer than its time-out of {nanoseconds / 1e9:g} s",
        code=ErrorCode.TIMEOUT,
        hint="give it more time, or read less",
    )
