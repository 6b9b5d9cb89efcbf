"""From relations to physical operators: which are fused, which index is used, how joins and sorts
run.

The homes of the nodes register the rules (`planner/operators/passes.py::CHOICES`). Filters and
projections are fused into one calculation, which is fused into the scan below it if there is one,
so that `SELECT a FROM t WHERE b > 1` is a single operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from runnel.catalog import Snapshot
from runnel.connector import (
    IndexLookup,
    ReadableTable,
    ScanRequest,
    SinkRequest,
    WritableTable,
)
from runnel.deadline import check_time
from runnel.errors import NotSupportedError
from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from runnel.foreign.fragment import Fragment, FragmentSource
from runnel.planner.estimates import estimate
from runnel.planner.operators.passes import CHOICES, NARROWABLE
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.planner.rewriting import conjunction, renumber, substitute
from runnel.relation import nodes as logical
from runnel.relation.nodes import Field, Relation
from runnel.sqltypes import BIGINT

PARTITION_BUILD_ROWS = 100_000
"""Number of rows from which the build side of a join is partitioned by key, instead of sent whole
to every processor."""


def choose(relation: Relation, snapshot: Snapshot) -> Physical:
    """The physical plan of a query, without the operator that receives its rows."""
    check_time()
    chosen: Physical = CHOICES.rule(relation)(relation, snapshot)
    return _named(chosen, relation.state_name) if relation.state_name else chosen


def _named(chosen: Physical, name: str) -> Physical:
    """Sets the state name of the operator, which may be below a projection."""
    if isinstance(chosen, physical.Calc):
        return replace(chosen, input=_named(chosen.input, name))
    return replace(chosen, state_name=name)


def choose_as(operator: type[Physical]) -> Callable[[Any, Snapshot], Physical]:
    """The rule that chooses an operator with the fields of its relational node, over the operators
    of the node's inputs. A field that the node lacks has its default."""
    names = {item.name for item in fields(operator)} - {"fields", "rows"}

    def rule(node: Relation, snapshot: Snapshot) -> Physical:
        values = {name: getattr(node, name) for name in names if hasattr(node, name)}
        for name, value in values.items():
            if isinstance(value, Relation):
                values[name] = choose(value, snapshot)
        return operator(fields=node.fields, rows=estimate(node), **values)

    return rule


def choose_write(
    relation: Relation, snapshot: Snapshot, table: WritableTable, request: SinkRequest
) -> Physical:
    """The physical plan of a statement that writes the rows of `relation`; its result is their
    number."""
    count = (Field("count", BIGINT),)
    if isinstance(relation, Fragment):
        source = table.written_by(relation.source, request)
        if isinstance(source, FragmentSource):
            return physical.PhysicalFragment(fields=count, rows=1, source=source, stopped="")
    return physical.Write(
        fields=count, rows=1, input=choose(relation, snapshot), table=table, request=request
    )


def source(node: logical.Scan, lookup: IndexLookup | None) -> physical.SourceScan:
    table = node.table
    if not isinstance(table, ReadableTable):
        raise NotSupportedError(
            f'mapping "{table.name}" can only be written to',
            detail=f"connector {table.connector} can't read it",
            position=node.position,
        )
    read = (
        *node.columns,
        *sorted(columns_of(node.predicate) - set(node.columns) if node.predicate else ()),
    )
    positions = {column: position for position, column in reversed(list(enumerate(read)))}
    projections = None
    if len(read) > len(node.columns):
        projections = logical.references(node.fields)
    request = ScanRequest(
        columns=read,
        predicate=_advice(node.predicate),
        limit=node.limit if node.predicate is None else None,
    )
    values: dict[str, Any] = {
        "fields": node.fields,
        "rows": estimate(node),
        "table": table,
        "request": request,
        "condition": None if node.predicate is None else renumber(node.predicate, positions),
        "projections": projections,
    }
    if lookup is None:
        return physical.SourceScan(**values, malformed=node.malformed)
    return physical.IndexScan(lookup=lookup, **values)


def _advice(predicate: Expression | None) -> Expression | None:
    """The conjuncts that a table may apply in any order: they can't fail and are deterministic."""
    return conjunction(
        item for item in conjuncts(predicate) if not can_fail(item) and not is_volatile(item)
    )


def fuse(
    below: Physical,
    condition: Expression | None,
    projections: tuple[Expression, ...] | None,
    node: Relation,
) -> Physical:
    """Applies a condition and projections in the scan below if possible, else in a separate
    operator."""
    if isinstance(below, physical.SourceScan) and _is_plain(below.projections):
        if below.projections is not None:
            projections = below.projections if projections is None else projections
            old = below.projections
            condition = None if condition is None else substitute(condition, old)
            if projections is not old:
                projections = tuple(substitute(item, old) for item in projections)
        parts = conjuncts(below.condition) + conjuncts(condition)
        request = below.request
        if condition is not None:
            request = replace(request, limit=None)
        return replace(
            below,
            fields=node.fields,
            rows=estimate(node),
            request=request,
            condition=conjunction(parts),
            projections=_unless_identity(projections, len(request.columns)),
        )
    if below in NARROWABLE:
        below, condition, projections = _narrowed(below, condition, projections)
    projections = _unless_identity(projections, len(below.fields))
    if condition is None and projections is None:
        return replace(below, fields=node.fields)
    return physical.Calc(
        fields=node.fields,
        rows=estimate(node),
        input=below,
        condition=condition,
        projections=projections,
    )


def _narrowed(
    below: Any, condition: Expression | None, projections: tuple[Expression, ...] | None
) -> tuple[Any, Expression | None, tuple[Expression, ...] | None]:
    """An operator that returns only the columns that are read above it, and the condition and
    projections above over those columns. A projection that only selects columns is left to it."""
    if projections is None or below.columns is not None:
        return below, condition, projections
    if condition is None and all(isinstance(item, Column) for item in projections):
        kept = [item.index for item in projections if isinstance(item, Column)]
        if len(set(kept)) == len(kept):
            return _giving(below, kept), None, None
    read = set().union(*map(columns_of, (*projections, *conjuncts(condition))))
    kept = sorted(read)
    places = {index: place for place, index in enumerate(kept)}
    condition = None if condition is None else renumber(condition, places)
    return _giving(below, kept), condition, tuple(renumber(item, places) for item in projections)


def _giving(below: Any, columns: list[int]) -> Any:
    return replace(below, fields=tuple(below.fields[i] for i in columns), columns=tuple(columns))


def _unless_identity(
    projections: tuple[Expression, ...] | None, width: int
) -> tuple[Expression, ...] | None:
    """None for a projection that returns all columns of its input in order: renaming them costs
    nothing."""
    if projections is None or len(projections) != width:
        return projections
    is_same = all(
        isinstance(item, Column) and item.index == i for i, item in enumerate(projections)
    )
    return None if is_same else projections


def _is_plain(projections: tuple[Expression, ...] | None) -> bool:
    return projections is None or all(isinstance(item, Column) for item in projections)


def needed_rows(count: Expression, offset: Expression | None) -> Expression:
    """The number of rows that a first stage must return so that a last stage can skip `offset` rows
    and return `count`."""
    if offset is None:
        return count
    return Call(function="add", arguments=(count, offset), type=count.type)
