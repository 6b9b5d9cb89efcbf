"""The final rows of a job over streams: rows that will not change after its sink has received a
watermark. VERIFY JOB compares these rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.operators.passes import FINAL_ROWS
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Limit,
    Project,
    Relation,
    references,
    walk,
)
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT, BOOLEAN, Kind, SqlType

TIME = "event time"
"""The column that is added to the rows."""


@frozen
class BoundedRows:
    """The rows of a query with one more column at the end: the event time, which has a bound.

    relation: the rows.
    bound: the bound of the added column.
    index: the index of the query's column that is equal to the added one; None if there is none.
    completes: whether a row is emitted only when the watermark has passed its bound.
    """

    relation: Relation
    bound: TimeBound
    index: int | None
    completes: bool


def check_repeatable(relation: Relation, is_keyed: bool) -> None:
    """Raise NotSupportedError if the same input may produce other rows, or if the job writes rows
    that a bounded query does not return."""
    for node in walk(relation):
        if any(is_volatile(item) for item in node.own_expressions):
            raise NotSupportedError(
                "a job whose query has RAND or another volatile function can't be verified",
                hint="the query returns a different result each time",
            )
        if isinstance(node, Limit) and node.input.never_ends:
            raise NotSupportedError(
                "a job with LIMIT over a stream can't be verified",
                hint="the selected rows depend on the order of arrival",
            )
        emission = getattr(node, "emission", None)
        if (
            emission is not None
            and not is_keyed
            and (emission.every is not None or emission.lateness.value)
        ):
            raise NotSupportedError(
                "a job with EMIT EVERY or ALLOWED LATENESS can be verified only if its sink has a "
                "key",
                detail="its sink has early or repeated results in addition to the final ones",
                hint="SINK INTO a mapping with a key stores only the last result of each key",
            )


def with_time(relation: Relation) -> BoundedRows | None:
    """The rows with the event time that the watermark bounds; None if the query drops that column
    below an operator that buffers rows."""
    found = _with_time(relation)
    if found is None:
        return None
    node = relation
    while isinstance(node, Project | Filter):
        node = node.input
    completes = isinstance(node, Aggregate) and (
        node.emission is None or node.emission.every is None
    )
    return BoundedRows(*found, completes)


def _with_time(relation: Relation) -> tuple[Relation, TimeBound, int | None] | None:
    bounds = time_bounds(relation)
    width = len(relation.fields)
    if bounds:
        index = max(bounds)
        column = Column(index=index, name=TIME, type=relation.fields[index].type)
        return _with_column(relation, references(relation.fields), column), bounds[index], index
    if not isinstance(relation, Project | Filter):
        return None
    below = _with_time(relation.input)
    if below is None:
        return None
    inner, bound, _ = below
    if isinstance(relation, Filter):
        return relation.with_inputs((inner,)), bound, None
    last = len(inner.fields) - 1
    column = Column(index=last, name=TIME, type=inner.fields[last].type)
    made = Project(
        input=inner, expressions=(*relation.expressions, column), names=(*relation.names, TIME)
    )
    assert len(made.fields) == width + 1
    return made, bound, None


def _with_column(
    relation: Relation, columns: tuple[Expression, ...], added: Expression
) -> Relation:
    names = tuple(item.name for item in relation.fields)
    return Project(input=relation, expressions=(*columns, added), names=(*names, TIME))


def gives_at_once(relation: Relation) -> bool:
    """Whether the results of each row of a stream are emitted at once, so that all are final."""
    return all(_emits_at_once(node) for node in walk(relation) if node.never_ends)


def _emits_at_once(node: Relation) -> bool:
    rule = FINAL_ROWS.find(node)
    return rule is not None and rule(node)


def before(column: Expression, time: int) -> Expression:
    """Whether the value of a column is before an event time."""
    limit = _as_value(column.type, time)
    if isinstance(limit, bool):
        return Literal(value=limit, type=BOOLEAN)
    kind = BIGINT if column.type.is_integer else column.type
    return build.call("lt", [column, Literal(value=limit, type=kind)])


def _as_value(kind: SqlType, time: int) -> int | date | datetime | bool:
    """An event time as a value of `kind`; a BOOLEAN if it is outside the type's range: whether all
    values are before it."""
    if kind.is_integer:
        return time
    try:
        instant = datetime(1970, 1, 1) + timedelta(microseconds=time)
    except OverflowError:
        return time > 0
    if kind.kind is Kind.DATE:
        whole = instant.date()
        if datetime(whole.year, whole.month, whole.day) == instant:
            return whole
        return whole + timedelta(days=1) if whole < date.max else True
    return instant.replace(tzinfo=UTC) if kind.kind is Kind.TIMESTAMP_TZ else instant
