"""Relational nodes of live queries, whose result changes while their inputs grow.

The rows of a relation appear only, or they also change. Rows that change have a last column
`WEIGHT`: +n for a row that appears n times, −n for one that disappears. The sum of the weights of
equal rows is the number of times that the row is in the relation (a Z-set). Rows that only appear
have no such column. The planner adds these nodes and the columns after all rules
(`planner/live/maintenance.py`).
"""

from __future__ import annotations

from functools import cached_property

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.expressions.nodes import AggregateCall, Change, Column, Expression, mapped
from runnel.relation.changing_tables import EventLog
from runnel.relation.nodes import LEFT_ONLY, Field, JoinKind, Pair, Relation, Single
from runnel.sqltypes import BIGINT, BOOLEAN, TINYINT

WEIGHT = "$weight"
"""The name of the column of weights."""

ROW_KIND = "$kind"
"""The name of the column of row kinds."""

CHANGE_COLUMNS = (Field("__epoch", BIGINT), Field("__weight", BIGINT))
"""The first columns of the changes of a query."""


@frozen(kw_only=True)
class CurrentRows(Single):
    """The current rows of a table that is known by a log of its changes.

    The input is the log. Its first columns are the ones of the result; then come the operation, as
    in EventLog; whether the columns are of the row before the event; whether the event has
    that row; and the location of the event. Over a log with an end the result is the rows at its
    end.

    log: how the events describe the rows.
    width: the number of columns of the result.
    key: the indexes of the columns that identify a row; None: all columns do.
    is_live: whether the result is the changes of the rows, with the weight as last column.
    """

    family = "streams.current_rows"
    clause = "a table whose rows change"
    combines_rows = True

    log: EventLog
    width: int
    key: tuple[int, ...] | None
    is_live: bool = False

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        found = self.input.fields[: self.width]
        return (*found, Field(WEIGHT, BIGINT)) if self.is_live else found


@frozen(kw_only=True)
class LiveAggregate(Single):
    """GROUP BY over rows without an end: the changes of the groups, epoch by epoch.

    The result has the keys, the aggregates and the weight.

    keys: the first columns of the input.
    aggregates: the aggregate calls.
    names: the names of the keys and aggregates.
    is_changing: whether the rows of the input change; then its last column is the weight.
    """

    family = "streams.live"
    combines_rows = True

    keys: tuple[Column, ...]
    aggregates: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    is_changing: bool

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return (*self.keys, *(item for call in self.aggregates for item in call.expressions))

    def map_expressions(self, change: Change) -> Relation:
        return self._replaced(
            keys=mapped(self.keys, change),
            aggregates=tuple(call.map_expressions(change) for call in self.aggregates),
        )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        types = [*(item.type for item in self.keys), *(item.type for item in self.aggregates)]
        found = (Field(name, item) for name, item in zip(self.names, types, strict=True))
        return (*found, Field(WEIGHT, BIGINT))


@frozen(kw_only=True)
class LivePartitions(Single):
    """An operator over rows without an end whose result for a partition depends on the rows of the
    partition only: the changes of its result, epoch by epoch, with the weight as last column.

    keys: the number of partition columns, the first columns of the input and of the result.
    operation: the operator over `rows_at_run_time`, which are the input without the weight.
    is_changing: as in LiveAggregate.
    """

    family = "streams.live"
    combines_rows = True

    keys: int
    operation: Relation
    is_changing: bool

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (*self.operation.fields, Field(WEIGHT, BIGINT))


@frozen(kw_only=True)
class LiveJoin(Pair):
    """A join of rows without an end: the changes of its result, epoch by epoch.

    The result has the columns of both sides as in Join, without their weights, and the weight if
    rows change.

    kind: INNER, LEFT, FULL, SEMI, ANTI, EXISTS_MARK or SINGLE.
    keys: the number of keys, the first columns of both inputs.
    null_safe: as in Join.
    condition: over the columns of both sides, without their weights; None: true.
    changing: for each side whether its rows change; then its last column is the weight.
    is_changing: whether the rows of the result change.
    compares_all: whether each row of a side is compared with all rows of the opposite side, which
        may be many.
    """

    family = "streams.live_joins"
    combines_rows = True

    kind: JoinKind
    keys: int
    null_safe: tuple[int, ...]
    condition: Expression | None
    changing: tuple[bool, bool]
    is_changing: bool
    compares_all: bool = False

    @property
    def own_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)

    def map_expressions(self, change: Change) -> Relation:
        return self if self.condition is None else self._replaced(condition=change(self.condition))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        left, right = (
            side.fields[:-1] if changes else side.fields
            for side, changes in zip(self.inputs, self.changing, strict=True)
        )
        found = left if self.kind in (*LEFT_ONLY, JoinKind.EXISTS_MARK) else (*left, *right)
        if self.kind is JoinKind.EXISTS_MARK:
            found = (*found, Field("matched", BOOLEAN))
        return (*found, Field(WEIGHT, BIGINT)) if self.is_changing else found


@frozen(kw_only=True)
class ChangeStream(Single):
    """The result of EMIT CHANGES: the net changes of each epoch, as CHANGE_COLUMNS and the columns
    of the query.

    is_changing: as in LiveAggregate.
    unique: the indexes of columns of the query by which its rows differ; None: unknown.
    distance: minimum time between the ends of two epochs, in ns.
    """

    family = "streams.live"

    is_changing: bool
    unique: tuple[int, ...] | None
    distance: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        below = self.input.fields
        return (*CHANGE_COLUMNS, *(below[:-1] if self.is_changing else below))


@frozen(kw_only=True)
class Changelog(Single):
    """The changes of a result that a job writes: the rows of each epoch, with ROW_KIND as last
    column.

    key: the indexes of columns by which the rows of the result differ, and by which they are
        updated; None: unknown.
    distance: as in ChangeStream.
    """

    family = "streams.live"

    key: tuple[int, ...] | None
    distance: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields[:-1], Field(ROW_KIND, TINYINT))


@frozen(kw_only=True)
class ViewInput(Single):
    """The changes of a materialized view, which its scan begins again after a restart: the changes
    since. The last column is the weight.

    view: the name of the view.
    """

    family = "streams.live_views"

    view: str

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@frozen(kw_only=True)
class Publication(Single):
    """The rows of a materialized view, published epoch by epoch. It returns no rows.

    table: the view.
    is_changing, distance: as in ChangeStream.
    """

    family = "streams.live_views"

    table: Table
    is_changing: bool
    distance: int

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields[:-1] if self.is_changing else self.input.fields
