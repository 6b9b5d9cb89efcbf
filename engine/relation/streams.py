"""What is special about queries on streams: event time, windows and when results come out.

Event time is an integer: the number itself for an integer column, microseconds since 1970 for
temporal ones (a DATE counts from midnight). A watermark of a query has a number
(`Watermark.column`), since a join of streams has several; each `ImposeOrder` is the origin of one.

A column has a `TimeBound` (watermark, offset) where later rows can't hold less than the watermark's
time plus the offset. All operators on streams rest on that one notion: a group, a partition or a
buffered row is complete when its bounded column is below watermark + offset, and late when it
arrives after that. Windows only make columns with bounds:
of a row at time t in a window of a given size, window_start > t − size, window_end > t and
window_time ≥ t.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Change, Column, Expression, mapped
from runnel.relation.nodes import Field, Pair, Relation, Single, walk
from runnel.sqltypes import TIMESTAMP, Kind, SqlType

if TYPE_CHECKING:
    from runnel.relation.emission import LateSides

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


@frozen
class TimeBound:
    """Every later row has a value of at least (time of watermark `watermark`) + `offset`, or
    NULL."""

    watermark: int
    offset: int = 0

    def moved(self, by: int) -> TimeBound:
        """The bound of a column that holds the value plus `by`."""
        return TimeBound(self.watermark, self.offset + by)


@frozen(kw_only=True)
class ImposeOrder(Single):
    """The input's rows, and a watermark: its time is the greatest event time seen in the column at
    `time` less `lag`. `watermark` is its number in the query; `idle_timeout` is the milliseconds
    without a row after which a partition of the source doesn't hold it back (None: a second; 0: it
    always does). Over an input that ends it does nothing."""

    time: int
    lag: int
    watermark: int
    idle_timeout: int | None = None


class WindowKind(Enum):
    """TUMBLE: windows of `size`, one after the other. HOP: windows of `size`, a new one each `step`
    (at most `size`). CUMULATE: windows that begin each `size` and end each `step` after that, up to
    `size`. SESSION: rows of a partition whose closed intervals [t, t + size] touch."""

    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"


@frozen
class WindowShape:
    """A kind of window in units of event time; all positive but `offset`, which moves the windows'
    starts off 0 (1970)."""

    kind: WindowKind
    size: int
    step: int = 0
    offset: int = 0


@frozen(kw_only=True)
class AssignWindows(Single):
    """The input's rows, each once per window that it is in, with the columns window_start,
    window_end and window_time (the window's last instant, window_end − 1). `time` is a column of
    the input, `partition` (SESSION only) are expressions over it. A row whose time is NULL comes
    once, with NULL in all three."""

    shape: WindowShape
    time: Column
    partition: tuple[Expression, ...] = ()

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return (self.time, *self.partition)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(time=change(self.time), partition=mapped(self.partition, change))

    @property
    def bound_type(self) -> SqlType:
        """The type of the three columns: the time column's, a TIMESTAMP for a DATE."""
        return TIMESTAMP if self.time.type.kind is Kind.DATE else self.time.type

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *(Field(name, self.bound_type) for name in WINDOW_COLUMNS))


def event_time_type(relation: Relation) -> SqlType | None:
    """The type of the first event time of a query; None where it has none."""
    return next(
        (item.fields[item.time].type for item in walk(relation) if isinstance(item, ImposeOrder)),
        None,
    )


@frozen(kw_only=True)
class AsOfJoin(Pair):
    """Each left row with the one right row of equal keys that was the last at its time: of those
    with `right_time` at most `left_time` (`strict`: less) the one with the greatest, of equal times
    the last that came. `forward`: the next one instead, with `right_time` at least `left_time` and
    the least. Without one the left row is dropped, or (`outer`) comes alone.

    Keys are as in `relation.Join`; times are integers or temporal values of one type, NULL is no
    time.
    """

    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    left_time: Expression
    right_time: Expression
    outer: bool = False
    strict: bool = False
    forward: bool = False
    late: LateSides | None = None

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        late = () if self.late is None else self.late.expressions
        return (*self.left_keys, *self.right_keys, self.left_time, self.right_time, *late)

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            left_keys=mapped(self.left_keys, change),
            right_keys=mapped(self.right_keys, change),
            left_time=change(self.left_time),
            right_time=change(self.right_time),
            late=None if self.late is None else self.late.mapped(change, change),
        )
