"""The home of tables that are known by a log of their changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError
from runnel.planner.estimates import Of
from runnel.planner.lower.dag_builder import CURRENT_ROWS, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose_as
from runnel.planner.physical.nodes import SingleInput, column_names
from runnel.planner.rules.column_pruning import Pruned, exactly
from runnel.relation.changing_tables import EventLog, OnInconsistency
from runnel.relation.live import CurrentRows
from runnel.sqltypes import to_arrow

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.live.maintained import Maintain, Maintained

LOCATED_FROM = 3
"""The index of the location of an event, after the columns of the table."""


@frozen(kw_only=True)
class PhysicalCurrentRows(SingleInput):
    """The current rows of a table. The fields are as in CurrentRows."""

    family = "streams.current_rows"

    log: EventLog
    width: int
    key: tuple[int, ...] | None
    is_live: bool


passes.CHOICES.add(choose_as(PhysicalCurrentRows), CurrentRows)


@passes.PRUNING.of(CurrentRows)
def _prune(node: CurrentRows, needed: set[int]) -> Pruned:
    kept = list(range(node.width))
    if node.key is not None or node.log.on_inconsistency is OnInconsistency.TRUST:
        kept = sorted(needed | set(node.key or ())) or [0]
    places = {index: place for place, index in enumerate(kept)}
    below = exactly(node.input, [*kept, *range(node.width, len(node.input.fields))])
    key = None if node.key is None else tuple(places[i] for i in node.key)
    return replace(node, input=below, width=len(kept), key=key), places


@passes.ESTIMATES.of(CurrentRows)
def _estimate(node: CurrentRows, of: Of) -> int | None:
    return of(node.input)


@passes.STREAM_CHECKS.of(CurrentRows)
def _check(node: CurrentRows, unbounded_state: bool) -> None:
    if node.never_ends and not node.is_live:
        raise NotSupportedError(
            "a streaming query over a table whose rows change is not supported",
            detail="a row that it returned could change later, or be deleted",
            position=node.position,
        )


@passes.MAINTENANCE.of(CurrentRows)
def _maintain(node: CurrentRows, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import Maintained

    if not node.is_unbounded:
        return Maintained(node, unique=node.key)
    return Maintained(replace(node, is_live=True), is_changing=True, unique=node.key)


@passes.EXPLAIN.of(CurrentRows, PhysicalCurrentRows)
def _describe(node: CurrentRows | PhysicalCurrentRows) -> Description:
    properties = {}
    if node.key is not None:
        properties["unique"] = ", ".join(node.fields[i].name for i in node.key)
    return "Current rows", properties


@passes.STATE_TEXTS.of(PhysicalCurrentRows)
def _state(node: PhysicalCurrentRows) -> str:
    if node.key is None and node.log.on_inconsistency is OnInconsistency.TRUST:
        return "the changes of an epoch"
    return "all rows of the table"


@passes.LOWERING.of(PhysicalCurrentRows)
def _lower(to: Lowering, node: PhysicalCurrentRows) -> VertexOutput:
    from runnel.processors.live.tables.current_rows import current_rows

    rows = to.lower(node.input)
    names, fields = column_names(node.fields), node.input.fields
    schema = pa.schema(
        [
            pa.field(name, to_arrow(item.type))
            for name, item in zip(names[: node.width], fields[: node.width], strict=True)
        ]
    )
    location = [to_arrow(item.type) for item in fields[node.width + LOCATED_FROM :]]
    supplier = current_rows(node.log, node.key, schema, location, is_live=node.is_live)
    key = range(node.width) if node.key is None else node.key
    return to.by_key(rows, CURRENT_ROWS, supplier, tuple(rows.names[i] for i in key), names)


@passes.IDENTITY.of(PhysicalCurrentRows)
def _identify(node: PhysicalCurrentRows) -> Identity:
    from runnel.planner.identity.nodes import arranged

    return "Current rows", {
        "key": "" if node.key is None else ", ".join(map(str, node.key)),
        "rows": arranged(node.input),
        "retained": _state(node),
    }


by_default(
    CurrentRows,
    passes.PREDICATES,
    passes.EMPTY,
    passes.LIMITS,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.BOUNDS,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.FINAL_ROWS,
    passes.FRAGMENT_INPUTS,
    passes.RENDERED,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    PhysicalCurrentRows,
    passes.NARROWABLE,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
