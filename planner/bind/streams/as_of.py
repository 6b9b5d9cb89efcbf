"""Binding of ASOF JOIN and of FOR SYSTEM_TIME AS OF. Equalities become keys; one comparison of
times selects the right row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.streams.versioned_views import KeyedVersions
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.operators.passes import ORIGINS
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.rewriting import column, shift
from runnel.relation.nodes import JoinKind, Project, Relation, Scan, transform
from runnel.relation.streams import AsOfJoin
from runnel.sqltypes import TIMESTAMP_TZ

if TYPE_CHECKING:
    from runnel.planner.bind.binders import QueryBinder
    from runnel.planner.bind.scope import BoundRelation

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_HINT = "write ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts"


def as_of(
    kind: JoinKind,
    left: Relation,
    right: Relation,
    condition: Expression,
    position: Position | None,
    is_temporal: bool = False,
) -> AsOfJoin:
    """The as-of join with a condition that has equalities between the sides and one comparison of
    their times."""
    name = "FOR SYSTEM_TIME AS OF" if is_temporal else "ASOF JOIN"
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise NotSupportedError(
            f"{kind.name} JOIN with {name} is not supported",
            hint="use INNER or LEFT",
            position=position,
        )
    width = len(left.fields)
    keys: list[tuple[Expression, Expression]] = []
    times: list[tuple[str, Expression, Expression]] = []
    for conjunct in conjuncts(condition):
        found = _sides(conjunct, width)
        if found is None or (found[0] != "eq" and times):
            raise NotSupportedError(
                f"{name} accepts equalities between both sides"
                + ("" if is_temporal else " and one comparison of their times"),
                hint="put other conditions into WHERE" if found is None else _HINT,
                position=conjunct.position or position,
            )
        if found[0] == "eq":
            keys.append((found[1], found[2]))
        else:
            times.append(found)
    if not times:
        raise ProgrammingError(f"{name} needs a comparison of times", hint=_HINT, position=position)
    function, first, second = times[0]
    if not (first.type.is_integer or first.type.is_temporal) or first.type.kind.name == "TIME":
        raise NotSupportedError(
            f"{name} compares integers, dates and timestamps, not {first.type}",
            position=first.position or position,
        )
    return AsOfJoin(
        left=left,
        right=right,
        left_keys=tuple(mine for mine, _ in keys),
        right_keys=tuple(shift(other, -width) for _, other in keys),
        left_time=first,
        right_time=shift(second, -width),
        outer=kind is JoinKind.LEFT,
        strict=function in ("lt", "gt"),
        forward=function in ("lt", "le"),
        position=position,
    )


def _sides(conjunct: Expression, width: int) -> tuple[str, Expression, Expression] | None:
    """The comparison of a conjunct, with the left side's expression first (flipped if necessary);
    None for any other conjunct."""
    if not isinstance(conjunct, Call) or conjunct.function not in _FLIPPED:
        return None
    first, second = conjunct.arguments
    if first.type != second.type or first.type.is_nested:
        return None
    for function, mine, other in (
        (conjunct.function, first, second),
        (_FLIPPED[conjunct.function], second, first),
    ):
        reads, others = columns_of(mine), columns_of(other)
        if reads and others and max(reads) < width <= min(others):
            return function, mine, other
    return None


def version_of(tree: Any, position: Position | None) -> Any:
    """The expression after FOR SYSTEM_TIME AS OF."""
    version = tree.args["version"]
    if (
        version.name.upper() != "TIMESTAMP"
        or str(version.args.get("kind") or "").upper() != "AS OF"
    ):
        raise NotSupportedError(
            "only FOR SYSTEM_TIME AS OF is supported to select a version of a table",
            hint="write JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency",
            position=position,
        )
    return version.expression


def is_current(
    binder: QueryBinder,
    left: BoundRelation,
    right: Relation,
    version: Any,
    position: Position | None,
) -> bool:
    """Whether the join is one with the table as it is: AS OF PROCTIME(), or AS OF a column of the
    processing time if the right side has no versions."""
    if function_call(version.expression) == ("PROCTIME", []):
        _check_current(right, position)
        return True
    if not isinstance(version.expression, exp.Column) or _time_column(right) is not None:
        return False
    instant = ExpressionBinder(binder, left.scope, "FOR SYSTEM_TIME").bind(version.expression)
    return _is_processing_time(left.relation, instant)


def at_arrival(right: Relation) -> Relation:
    """The right side of a join with the table as it is when a row arrives."""
    return transform(
        right, lambda node: replace(node, at_arrival=True) if isinstance(node, Scan) else node
    )


def _is_processing_time(relation: Relation, expression: Expression) -> bool:
    """Whether an expression over the relation is PROCTIME(), possibly in a column of an input, or
    the time at which a generated row is due."""
    while isinstance(expression, Column):
        rule = ORIGINS.find(relation)
        below = None if rule is None else rule(relation, expression.index)
        if below is None:
            return (
                isinstance(relation, Scan)
                and relation.table.connector == "DataGen"
                and expression.type == TIMESTAMP_TZ
            )
        relation, expression = below
    return isinstance(expression, Call) and expression.function == "proctime"


def _check_current(right: Relation, position: Position | None) -> None:
    """An error for a table that has versions."""
    if _time_column(right) is not None:
        raise NotSupportedError(
            "FOR SYSTEM_TIME AS OF PROCTIME() is not supported for a table with an event time",
            detail="its rows are versions, and there is no processing time that selects one",
            hint="write FOR SYSTEM_TIME AS OF and the time column of the left side",
            position=position,
        )


def temporal(
    kind: JoinKind,
    left: Relation,
    right: Relation | KeyedVersions,
    instant: Expression,
    on: Expression,
    position: Position | None,
) -> Relation:
    """The join with the version of the right side that is valid at `instant`.

    on: the equalities, over the columns of both sides.
    """
    if isinstance(right, KeyedVersions):
        relation, time = right.relation, right.time
    else:
        relation, time = right, _required_time(right, position)
    later = build.call(
        "ge", [instant, shift(column(relation.fields, time), len(left.fields))], position
    )
    condition = build.call("and", [on, later], position)
    found = as_of(kind, left, relation, condition, position, is_temporal=True)
    if isinstance(right, KeyedVersions):
        _check_keys(found, right, position)
    return found


def _check_keys(join: AsOfJoin, versions: KeyedVersions, position: Position | None) -> None:
    """An error unless the equalities of a join compare the key of the versions."""
    compared = {item.index if isinstance(item, Column) else None for item in join.right_keys}
    if compared == versions.keys:
        return
    fields = versions.relation.fields
    names = ", ".join(f'"{fields[index].name}"' for index in sorted(versions.keys))
    raise NotSupportedError(
        f"FOR SYSTEM_TIME AS OF a view of the latest row of each {names} compares {names} in ON",
        detail="another comparison would select a version that is not the latest row of its key",
        hint="put other conditions into WHERE",
        position=position,
    )


def _required_time(relation: Relation, position: Position | None) -> int:
    time = _time_column(relation)
    if time is None:
        raise ProgrammingError(
            "FOR SYSTEM_TIME AS OF needs a table with an event time, or a view of latest rows",
            detail="no column has the time from which a row is valid; a view of latest rows "
            "numbers them by ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC), selects number 1 "
            "and no other condition, and has the columns k and ts",
            hint="to join the table as it is, leave FOR SYSTEM_TIME AS OF out; for versions add "
            "WATERMARK FOR to its CREATE MAPPING, or write ASOF JOIN … ON a.ts >= b.ts",
            position=position,
        )
    return time


def _time_column(relation: Relation) -> int | None:
    if (
        isinstance(relation, Project)
        and isinstance(relation.input, Scan)
        and relation.input.table.computed
    ):
        times = relation.input.table.event_time
        return None if times is None else times.column
    if isinstance(relation, Scan):
        return (
            None
            if relation.table.event_time is None
            else relation.columns.index(relation.table.event_time.column)
        )
    positions: Sequence[int] = [
        position for position, bound in sorted(time_bounds(relation).items()) if not bound.offset
    ]
    return positions[0] if positions else None
