"""Which rows a job over streams has given for good when its sink has seen a watermark: those that
VERIFY JOB can compare."""

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
    """The rows of a query with one more column, the last, which has the bound. `place`: the column
    of the query itself that it is, if it is one. `completes`: a row is given when the watermark has
    passed its bound, and not before."""

    relation: Relation
    bound: TimeBound
    place: int | None
    completes: bool


def check_repeatable(relation: Relation, is_keyed: bool) -> None:
    """NotSupportedError where the same input may give other rows, or what is written isn't what a
    bounded query gives."""
    for node in walk(relation):
        if any(is_volatile(item) for item in node.own_expressions):
            raise NotSupportedError(
                "a job whose query has RAND, or another function with a value of its own each "
                "time, can't be verified",
                hint="what the same input gives is something else each time",
            )
        if isinstance(node, Limit) and node.input.never_ends:
            raise NotSupportedError(
                "a job with LIMIT over a stream can't be verified",
                hint="which rows those are depends on what came first",
            )
        emission = getattr(node, "emission", None)
        if (
            emission is not None
            and not is_keyed
            and (emission.every is not None or emission.lateness.value)
        ):
            raise NotSupportedError(
                "a job with EMIT EVERY or ALLOWED LATENESS can be verified only where it writes to "
                "keys",
                detail=(
                    "its sink has results that were given early, or given again, "
                    "beside the last ones"
                ),
                hint="SINK INTO a mapping with a key keeps the last of each",
            )


def with_time(relation: Relation) -> BoundedRows | None:
    """The rows with the event time that the watermark bounds; None where the query has lost it
    below something that keeps rows of its own."""
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
        place = max(bounds)
        column = Column(index=place, name=TIME, type=relation.fields[place].type)
        return _with_column(relation, references(relation.fields), column), bounds[place], place
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
    """Whether each row of a stream gives what it does at once, so that all of it is final."""
    return all(_gives_at_once(node) for node in walk(relation) if node.never_ends)


def _gives_at_once(node: Relation) -> bool:
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
    """An event time as a value of that type; whether all values are before it, where it is beyond
    the type."""
    if kind.is_integer:
        return time
    try:
        moment = datetime(1970, 1, 1) + timedelta(microseconds=time)
    except OverflowError:
        return time > 0
    if kind.kind is Kind.DATE:
        whole = moment.date()
        if datetime(whole.year, whole.month, whole.day) == moment:
            return whole
        return whole + timedelta(days=1) if whole < date.max else True
    return moment.replace(tzinfo=UTC) if kind.kind is Kind.TIMESTAMP_TZ else moment
