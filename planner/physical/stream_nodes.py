"""Physical nodes of event time: what gives watermarks, windows, and what waits for them; joins of
streams.

Some of them run over tables too, in queries that have windows over time or as-of joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.connector import SinkRequest, WritableTable
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Column, Expression
from runnel.planner.physical.nodes import HashAggregate, SingleInput, Sort, TwoInputs, Window
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.streams import WindowShape

if TYPE_CHECKING:
    from runnel.processors.joins.lookup import Lookup
    from runnel.processors.sources.partition_watermarks import TimeRule
    from runnel.relation.stream_joins import AsOfShape, IntervalShape, TimedShape
    from runnel.relation.streams import TimeBound
    from runnel.relation.window_reach import Reach


@frozen(kw_only=True)
class ImposeOrder(SingleInput):
    """Watermarks for what is no plain scan, from the times of its rows; `time.time` is over the
    input's columns."""

    time: TimeRule


@frozen(kw_only=True)
class LateRows:
    """Where rows go that came too late: the values of `expressions`, over the operator's input."""

    table: WritableTable
    request: SinkRequest
    expressions: tuple[Expression, ...]


@frozen(kw_only=True)
class LateFilter(SingleInput):
    """The input's rows that are in time for the operator above: none of the `bounded` expressions
    is more than `lateness` behind its watermark. The others go to `late`, as those that the
    operator finds late itself.
    `is_beside`: each processor filters the rows of one processor of the input; else the watermarks
        of all count."""

    bounded: tuple[tuple[Expression, TimeBound], ...]
    lateness: int
    late: LateRows
    is_beside: bool


@frozen(kw_only=True)
class WindowedKeys:
    """What is grouped by where windows stand right below an aggregation, in terms of their input:
    the fields are as in FramedAggregate. An aggregation with equal ones may go on with its state
    though the windows are others."""

    shape: WindowShape
    time: Column
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]


@frozen(kw_only=True)
class TimedAggregate(HashAggregate):
    """A HashAggregate over an input without end: a group comes out when the watermark passes one of
    its bounded keys, which `bounds` gives by their numbers."""

    bounds: tuple[tuple[int, TimeBound], ...]
    every: int | None = None
    """Microseconds between early results of the groups that are open."""
    lateness: int = 0
    """How long, in event time, a complete group still takes rows and is given again."""
    late: LateRows | None = None
    counted: int | None = None
    """Over grouping sets the number of the key that is the set's number: a late row is one for one
    set only. None: always."""
    windowed: WindowedKeys | None = None
    """Where it is by the windows of TUMBLE, HOP or CUMULATE."""


@frozen(kw_only=True)
class FramedAggregate(SingleInput):
    """Groups by the windows of a HOP or CUMULATE that the rows are in by `time`, and by `keys`,
    without a row for each window. `columns` says what the key columns of the result are: the number
    of one of `keys`, or −1, −2, −3 for window_time, window_end, window_start. `bound` is that of
    the time column (None: the input ends)."""

    shape: WindowShape
    time: Column
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    two_stage: bool
    bound: TimeBound | None
    late: LateRows | None = None


@frozen(kw_only=True)
class SessionAggregate(SingleInput):
    """Groups by the sessions of each of the `partition` that the rows are in by `time`, and by
    `keys`, without holding the rows. `partition` are numbers of keys; `columns` and `bound` are as
    in FramedAggregate."""

    gap: int
    time: Column
    keys: tuple[Expression, ...]
    partition: tuple[int, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    bound: TimeBound
    late: LateRows | None = None
    every: int | None = None
    lateness: int = 0
    """As in TimedAggregate."""


@frozen(kw_only=True)
class StreamJoin(TwoInputs):
    """A join of two inputs without end that wait for each other; the fields are as with
    HashJoin."""

    kind: JoinKind
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None
    null_safe: tuple[int, ...] = ()
    late: tuple[LateRows | None, LateRows | None] = (None, None)
    """Where late rows of each side go."""


@frozen(kw_only=True)
class IntervalJoin(StreamJoin):
    """One whose times bound each other, as `times` says; `condition` is what remains to be looked
    at of the pairs that are found by keys and times."""

    times: IntervalShape


@frozen(kw_only=True)
class TimedJoin(StreamJoin):
    """One that is run value by value of a time that both sides share."""

    times: TimedShape


@frozen(kw_only=True)
class LookupJoin(SingleInput):
    """Each row with the one that `keys` find in a table at that moment; `lookup` says in which,
    `right` what it gives. The other fields are as with HashJoin."""

    kind: JoinKind
    lookup: Lookup
    right: tuple[Field, ...]
    keys: tuple[Expression, ...]
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class AsOfJoin(TwoInputs):
    """A `streams.AsOfJoin`; `shape` says how it picks and waits, `late` where late rows of each
    side go."""

    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    left_time: Expression
    right_time: Expression
    shape: AsOfShape
    columns: tuple[int, ...] | None = None
    late: tuple[LateRows | None, LateRows | None] = (None, None)


@frozen(kw_only=True)
class TimedSort(Sort):
    """A Sort over an input without end, in which the first key ascends and has a `bound`: rows wait
    for its watermark."""

    bound: TimeBound
    late: LateRows | None = None


@frozen(kw_only=True)
class TimedWindow(Window):
    """A Window over an input without end: rows wait until the watermark passes one of the bounded
    expressions `held`, by which all calls partition. With `reaches`, one per call, it is the one
    that they order by first, and the calls are of one arrangement."""

    held: tuple[tuple[Expression, TimeBound], ...]
    reaches: tuple[Reach, ...] = ()
    late: LateRows | None = None


@frozen(kw_only=True)
class AssignWindows(SingleInput):
    """Each row once per window that it is in. The columns of the result are those at `columns`
    (None: all) of the input's, followed by window_start, window_end and window_time. Of sessions
    see SessionRows."""

    shape: WindowShape
    time: Column
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class SessionRows(SingleInput):
    """Each row with window_start, window_end and window_time of its session, when that is complete:
    by the `bound` of the time column, else at the end. The input may have further columns behind
    those of the result, for the `keys`."""

    gap: int
    time: Column
    keys: tuple[Column, ...]
    bound: TimeBound | None
    passes_late: bool = False
    """Whether late rows go on, in sessions of their own, to an aggregation that knows where to put
    them."""
