"""The frames that a traceback shows: lines of the user's code, and not the inside of Runnel.

Imported only when a statement has failed.
"""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet
from types import FrameType, TracebackType

PACKAGE = __name__.partition(".")[0]
_LIBRARIES = frozenset(
    "pyarrow duckdb _duckdb sqlglot numpy xxhash pandas polars pyspark py4j fastavro "
    "confluent_kafka fsspec deltalake pyiceberg sqlalchemy grpc".split()
)
"""The packages that Runnel calls by itself: their frames alone are no user's code."""


def shortened(error: BaseException) -> None:
    """Removes Runnel's frames from the traceback of an error that leaves a public function, and
    the exceptions inside Runnel that led to it. Frames of the user's code remain (a Python
    function that SQL called, a connector of another package), and so does an exception that this
    code raised, as the cause. The cause that was removed is `__context__`.

    After it, a bare `raise` adds no frame of the function that it is in.
    """
    error.__traceback__ = _user_frames(error.__traceback__, _running())
    visited = {id(error)}
    cause = error.__cause__
    if cause is not None:
        visible = _visible(cause, visited)
        if visible is not cause:
            error.__context__ = cause
            error.__cause__ = visible
            error.__suppress_context__ = True
    elif not error.__suppress_context__ and error.__context__ is not None:
        error.__context__ = _visible(error.__context__, visited)


def _visible(error: BaseException | None, visited: set[int]) -> BaseException | None:
    """The first exception that the user's code raised, of this one and the ones that led to it."""
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        frames = _user_frames(error.__traceback__, frozenset())
        if frames is not None:
            error.__traceback__ = frames
            return error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def _user_frames(
    traceback: TracebackType | None, running: AbstractSet[FrameType]
) -> TracebackType | None:
    """A traceback without the frames of Runnel and the libraries that it calls, and without the
    frames that still run: they are the caller's, from an earlier raise of the same error."""
    found: list[TracebackType] = []
    while traceback is not None:
        frame = traceback.tb_frame
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_library = package in _LIBRARIES or package in sys.stdlib_module_names
        # A library that the user's code called is shown as well.
        if package != PACKAGE and frame not in running and (found or not is_library):
            found.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for item in reversed(found):
        result = TracebackType(result, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return result


def _running() -> set[FrameType]:
    frames = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames.add(frame)
        frame = frame.f_back
    return frames
