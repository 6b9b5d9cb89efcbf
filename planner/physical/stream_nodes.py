"""Physical nodes of event time: operators that generate watermarks or wait for them, time windows,
and joins of streams.

Some of them also run over tables, in queries with time windows or as-of joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Column, Expression
from runnel.planner.physical.nodes import (
    HashAggregate,
    LateOutput,
    PhysicalSort,
    PhysicalWindow,
    SingleInput,
    TwoInputs,
)
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.streams import WindowShape

if TYPE_CHECKING:
    from runnel.processors.joins.lookup import Lookup
    from runnel.processors.sources.partition_watermarks import TimeRule
    from runnel.relation.stream_joins import AsOfShape, IntervalShape, WindowJoinShape
    from runnel.relation.streams import TimeBound
    from runnel.relation.window_reach import Reach


@frozen(kw_only=True)
class PhysicalImposeOrder(SingleInput):
    """Generates watermarks from the times of its rows; used where the input is not a plain scan.
    `time.time` is over the input's columns."""

    family = "streams.time_windows"

    time: TimeRule


@frozen(kw_only=True)
class LateFilter(SingleInput):
    """The input's rows that are in time for the operator above: no `bounded` expression is more
    than `lateness` below its watermark. Other rows go to `late`, like rows that the operator itself
    finds late.

    bounded: expressions over the input, each with its bound.
    lateness: in event time.
    late: the output for late rows.
    is_aligned: whether each processor filters the rows of one processor of the input; otherwise the
        watermarks of all processors count.
    """

    family = "streams.time_windows"

    bounded: tuple[tuple[Expression, TimeBound], ...]
    lateness: int
    late: LateOutput
    is_aligned: bool


@frozen(kw_only=True)
class WindowedKeys:
    """The keys of an aggregation directly above time windows, over the windows' input.

    The fields are as in FramedAggregate. The state of an aggregation with equal keys can be used
    again even if the windows differ.
    """

    shape: WindowShape
    time: Column
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]


@frozen(kw_only=True)
class EventTimeAggregate(HashAggregate):
    """A HashAggregate over an unbounded input: a group is emitted when the watermark passes one of
    its bounded keys.

    bounds: the bounded keys, by their numbers.
    every: microseconds between early results of open groups; None: there are none.
    lateness: how long, in event time, a complete group still accepts rows and is emitted again.
    late: the output for late rows; None: they are dropped.
    counted: over grouping sets, the number of the key that is the set's number: a late row counts
        for one set only. None: every late row counts.
    windowed: set if the aggregation is by windows of TUMBLE, HOP or CUMULATE.
    """

    family = "streams.aggregates"

    bounds: tuple[tuple[int, TimeBound], ...]
    every: int | None = None
    lateness: int = 0
    late: LateOutput | None = None
    counted: int | None = None
    windowed: WindowedKeys | None = None


@frozen(kw_only=True)
class FramedAggregate(SingleInput):
    """An aggregation by the windows of HOP or CUMULATE and by `keys`, without a row per window.

    shape: the windows.
    time: the column that determines a row's windows.
    keys: the other expressions of GROUP BY.
    columns: the key columns of the result: the index of one of `keys`, or −1, −2, −3 for
        window_time, window_end, window_start.
    aggregates: the aggregates, whose values follow the keys in the result.
    two_stage: as in HashAggregate.
    bound: of the time column; None: the input ends.
    late: the output for late rows; None: they are dropped.
    """

    family = "streams.aggregates"

    shape: WindowShape
    time: Column
    keys: tuple[Expression, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    two_stage: bool
    bound: TimeBound | None
    late: LateOutput | None = None


@frozen(kw_only=True)
class SessionAggregate(SingleInput):
    """An aggregation by sessions and by `keys`, without buffering the rows.

    gap: in event time.
    time: the column that assigns rows to sessions.
    keys: the other expressions of GROUP BY.
    partition: the numbers of the keys by which sessions are separated.
    columns, bound: as in FramedAggregate.
    aggregates: the aggregates, whose values follow the keys in the result.
    late: the output for late rows; None: they are dropped.
    every, lateness: as in EventTimeAggregate.
    """

    family = "streams.aggregates"

    gap: int
    time: Column
    keys: tuple[Expression, ...]
    partition: tuple[int, ...]
    columns: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    bound: TimeBound
    late: LateOutput | None = None
    every: int | None = None
    lateness: int = 0


@frozen(kw_only=True)
class PhysicalStreamJoin(TwoInputs):
    """A join of two unbounded inputs whose rows wait for each other. Fields that are not listed are
    as in HashJoin.

    left_keys, right_keys: the expressions that must be equal, one pair per key.
    late: the outputs for late rows of the two sides.
    """

    kind: JoinKind
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None
    null_safe: tuple[int, ...] = ()
    late: tuple[LateOutput | None, LateOutput | None] = (None, None)


@frozen(kw_only=True)
class IntervalJoin(PhysicalStreamJoin):
    """A join whose times bound each other, as `times` says; `condition` is checked for the pairs
    that are found by keys and times."""

    family = "streams.joins"

    times: IntervalShape


@frozen(kw_only=True)
class WindowJoin(PhysicalStreamJoin):
    """A join that runs value by value of a time that both sides share."""

    family = "streams.joins"

    times: WindowJoinShape


@frozen(kw_only=True)
class LookupJoin(SingleInput):
    """Each row with the row that `keys` find in a table at that time. Fields that are not listed
    are as in HashJoin.

    lookup: the table, its columns and predicate.
    right: the fields of the table's rows.
    keys: over the columns of the input: the values of the table's key columns.
    """

    family = "hash_joins"

    kind: JoinKind
    lookup: Lookup
    right: tuple[Field, ...]
    keys: tuple[Expression, ...]
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class PhysicalAsOfJoin(TwoInputs):
    """An as-of join.

    left_keys, right_keys: the expressions that must be equal, one pair per key.
    left_time, right_time: the event times, by which a left row selects its version.
    shape: how versions are selected, and how long rows wait.
    columns: the indexes of the result's columns that are returned; None: all.
    late: the outputs for late rows of the two sides.
    """

    family = "streams.joins"

    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    left_time: Expression
    right_time: Expression
    shape: AsOfShape
    columns: tuple[int, ...] | None = None
    late: tuple[LateOutput | None, LateOutput | None] = (None, None)


@frozen(kw_only=True)
class EventTimeSort(PhysicalSort):
    """A Sort over an unbounded input: the first key ascends, and rows wait for its watermark.

    bound: of the first key.
    late: the output for late rows; None: they are dropped.
    """

    family = "sorting"

    bound: TimeBound
    late: LateOutput | None = None


@frozen(kw_only=True)
class EventTimeWindow(PhysicalWindow):
    """A Window over an unbounded input, whose rows wait until the watermark passes a bounded
    expression.

    bounded: the bounded expressions, by which all calls partition; with `reaches`, the expression
        that all calls order by first.
    reaches: one per call; all calls then have one arrangement.
    late: the output for late rows; None: they are dropped.
    """

    family = "over"

    bounded: tuple[tuple[Expression, TimeBound], ...]
    reaches: tuple[Reach, ...] = ()
    late: LateOutput | None = None


@frozen(kw_only=True)
class PhysicalAssignWindows(SingleInput):
    """Each row, repeated for every window that contains it; not for sessions (see SessionRows).

    shape: the windows.
    time: the column that determines a row's windows.
    columns: the indexes of the input's columns that are returned, before window_start, window_end
        and window_time; None: all.
    """

    family = "streams.time_windows"

    shape: WindowShape
    time: Column
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class SessionRows(SingleInput):
    """Each row with window_start, window_end and window_time of its session, when the session is
    complete.

    gap: in event time.
    time: the column that assigns rows to sessions.
    keys: the columns by which sessions are separated; they may be after the columns that are
        returned.
    bound: of the time column, by which sessions are complete; None: they are complete at the end.
    passes_late: whether late rows are passed on, each as a session of its own, to an aggregation
        that has an output for them.
    """

    family = "streams.time_windows"

    gap: int
    time: Column
    keys: tuple[Column, ...]
    bound: TimeBound | None
    passes_late: bool = False
