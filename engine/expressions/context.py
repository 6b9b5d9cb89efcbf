"""What an expression may know beside its columns: the arguments of the statement, its time and its
zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runnel.base.frozen import frozen


def _goes_on() -> None:
    """Nobody can cancel it."""


@frozen
class EvaluationContext:
    """Fixed for one execution of a statement.

    `arguments[i]` is the value of parameter i, a scalar of the parameter's canonical Arrow type.
    `now` is the statement's time in µs since the epoch, UTC: NOW() is the same for all rows. `zone`
    is the session's time zone (IANA name). `check()` raises once nobody waits for the result any
    more (the job is cancelled, or out of time); what takes long looks there every few ms.
    """

    arguments: Sequence[pa.Scalar] = ()
    now: int = 0
    zone: str = "UTC"
    check: Callable[[], None] = _goes_on


class Frame:
    """Rows to evaluate over: columns of equal length in canonical Arrow types, their number, and
    the context."""

    __slots__ = ("columns", "context", "num_rows")

    def __init__(
        self, columns: Sequence[pa.Array], num_rows: int, context: EvaluationContext
    ) -> None:
        self.columns = columns
        self.num_rows = num_rows
        self.context = context
