"""Relational nodes for streams: event time, time windows and the emission of results.

Event time is an integer: the value of an integer column, or microseconds since 1970 for a temporal
column (a DATE counts from midnight). A watermark of a query has a number (`Watermark.column`),
since a join of streams has several; each `ImposeOrder` generates one.

A column has a `TimeBound` (watermark, offset) if its value in later rows is at least the
watermark's time plus the offset. All operators on streams rest on this notion: a group, a partition
or a buffered row is complete when its bounded column is below watermark + offset, and late when it
arrives after that. Windows only add columns with bounds: for a row at time t in a window of a
given size, window_start > t − size, window_end > t and window_time ≥ t.
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
    """A lower bound of a column: the watermark's time + `offset`; later rows may also be NULL.

    watermark: the number of the watermark in the query.
    offset: in units of event time.
    """

    watermark: int
    offset: int = 0

    def moved(self, by: int) -> TimeBound:
        """Return the bound of a column that contains the value plus `by`."""
        return TimeBound(self.watermark, self.offset + by)


@frozen(kw_only=True)
class ImposeOrder(Single):
    """The rows of the input, and a watermark; over a bounded input, only the rows.

    time: the index of the column of event time.
    lag: the difference between the greatest observed event time and the watermark.
    watermark: the number of the watermark in the query.
    idle_timeout: milliseconds without a row after which a partition of the source no longer holds
        back the watermark; None: a second; 0: a partition always holds it back.
    """

    family = "streams.time_windows"

    time: int
    lag: int
    watermark: int
    idle_timeout: int | None = None


class WindowKind(Enum):
    """A kind of time window.

    TUMBLE: windows of one size, one after another.
    HOP: windows of one size, of which a new one starts every `step` (at most the size).
    CUMULATE: windows that start every `size`, and end every `step` after that, up to `size`.
    SESSION: the rows of a partition whose closed intervals [t, t + size] overlap or touch.
    """

    TUMBLE = "tumble"
    HOP = "hop"
    CUMULATE = "cumulate"
    SESSION = "session"


@frozen
class WindowShape:
    """The shape of time windows, in units of event time.

    kind: the kind of the windows.
    size: the size of a window, positive; of a session, its gap.
    step: the step of HOP and CUMULATE, positive; else 0.
    offset: a start of a window, instead of 0 (1970); may be negative.
    """

    kind: WindowKind
    size: int
    step: int = 0
    offset: int = 0


@frozen(kw_only=True)
class AssignWindows(Single):
    """Each row of the input once per window that contains it, with three additional columns.

    These are window_start, window_end and window_time (the last instant of the window,
    window_end − 1). A row whose time is NULL is returned once, with NULL in all three.

    shape: the windows.
    time: a column of the input.
    partition: the PARTITION BY expressions of SESSION.
    """

    family = "streams.time_windows"

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
        """The type of the three columns: the type of the time column, but TIMESTAMP for a DATE."""
        return TIMESTAMP if self.time.type.kind is Kind.DATE else self.time.type

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, *(Field(name, self.bound_type) for name in WINDOW_COLUMNS))


def event_times(relation: Relation) -> list[Field]:
    """Return the columns of which watermarks are generated in a query, outermost first."""
    return [item.fields[item.time] for item in walk(relation) if isinstance(item, ImposeOrder)]


def event_time_type(relation: Relation) -> SqlType | None:
    """Return the type of the first event time of a query; None if it has none."""
    return next((field.type for field in event_times(relation)), None)


@frozen(kw_only=True)
class AsOfJoin(Pair):
    """Each left row with the one right row of equal keys that is valid at the left row's time.

    That is the row with the greatest `right_time` of at most `left_time`; of rows with equal times,
    the row that arrived last.

    left_keys, right_keys: as in `nodes.Join`.
    left_time, right_time: integers or temporal values of one type; NULL matches nothing.
    outer: whether a left row without a match is returned with NULLs instead of being dropped.
    strict: whether `right_time` must be less than `left_time` (or greater, with `forward`).
    forward: whether the match is the row with the least `right_time` of at least `left_time`.
    late: the output for late rows; None if the SELECT has none.
    """

    family = "streams.joins"

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
