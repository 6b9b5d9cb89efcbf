"""Whose fault a failure is, and where it happened: every exception of a processor becomes an error
of the PEP 249 tree."""

from __future__ import annotations

import threading

from runnel.errors import DataError, Error, ErrorCode, OperationalError, internal


def vertex_failure(error: BaseException, vertex: str, is_hand_built: bool) -> Error:
    """The error to end the job with.

    An error of ours passes with the vertex named in its detail. In a hand-built DAG any other
    exception is taken for the user's own code; in a planned one it is a fault of Runnel, but for
    lack of memory and failing input and output.
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
"""What Arrow says where the values of one array have no room in it."""


def _foreign_failure(error: BaseException, vertex: str, where: str, is_hand_built: bool) -> Error:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, MemoryError):
        return OperationalError(
            "out of memory",
            code=ErrorCode.GENERIC,
            detail=f"{where}: {said}",
            hint="read or group less at a time",
        )
    if any(words in said for words in _TOO_MUCH):
        return DataError(
            "the values of a column take more than 2 GB at a time",
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
    """Whether this is the user's Ctrl-C, which goes to the one who called and isn't the processor's
    failure."""
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
