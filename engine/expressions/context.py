"""The input of an evaluator apart from the expression: columns, arguments, the statement's time and
zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.base.frozen import frozen


def _never_cancelled() -> None:
    """The check of an execution that cannot be cancelled."""


@frozen
class EvaluationContext:
    """The values that are fixed for one execution of a statement.

    arguments: the value of parameter i at index i, a scalar of the parameter's canonical Arrow
      type.
    now: the statement's time in µs since the epoch, UTC. NOW() is the same for all rows.
    zone: the session's time zone (IANA name).
    current: returns the time in µs since the epoch, UTC, which never decreases; None: `now`.
    check: raises once the result is no longer needed (the job was cancelled or has timed out). Long
      computations call it every few ms.
    """

    arguments: Sequence[pa.Scalar] = ()
    now: int = 0
    zone: str = "UTC"
    check: Callable[[], None] = _never_cancelled
    current: Callable[[], int] | None = None


class EvaluationInput:
    """The rows to evaluate an expression over.

    columns: arrays of equal length in canonical Arrow types.
    num_rows: the number of rows; the only source of it if there are no columns.
    context: the statement's arguments, time and zone.
    """

    __slots__ = ("columns", "context", "num_rows")

    def __init__(
        self, columns: Sequence[pa.Array], num_rows: int, context: EvaluationContext
    ) -> None:
        self.columns = columns
        self.num_rows = num_rows
        self.context = context
