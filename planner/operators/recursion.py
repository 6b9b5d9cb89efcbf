"""The home of WITH RECURSIVE, and of subplans that run once for several readers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.dag import between
from runnel.errors import NotSupportedError
from runnel.planner.lower.dag_builder import (
    BUILD_PRIORITY,
    HOLD,
    PROBE_PRIORITY,
    RECURSION,
    Lowering,
    VertexOutput,
)
from runnel.planner.operators.passes import (
    BLOCKING,
    BOUNDS,
    CHOICES,
    CORRELATION,
    DYNAMIC_FILTERS,
    EMPTY,
    ESTIMATES,
    EXPLAIN,
    FINAL_ROWS,
    FRAGMENT_INPUTS,
    GRAFTING,
    HOISTING,
    IDENTITY,
    LATE_ROWS,
    LIMITS,
    LOWERING,
    MOST_ROWS,
    NARROWABLE,
    ORIGINS,
    PREDICATES,
    PRUNING,
    READS_ALL,
    RENDERED,
    REPLAY,
    STAGES,
    STATE_COLUMNS,
    STATE_FORMS,
    STATE_NAMES,
    STATE_TEXTS,
    STREAM_CHECKS,
    STREAM_SHARING,
    TABLE_SHARING,
    WORTH_SHARING,
    by_default,
    not_met,
)
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import (
    Physical,
    PhysicalCommonRows,
    PhysicalRecursion,
    PhysicalWorkingTable,
    Shared,
    Spool,
)
from runnel.planner.rules.column_pruning import Pruned, exactly, unchanged
from runnel.planner.rules.empty_relations import emptied, is_empty
from runnel.relation.nodes import Aggregate, Relation, references
from runnel.relation.subqueries import CommonRows, Recursion, WorkingTable

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.state_columns import Side


@PRUNING.of(Recursion)
def _prune_recursion(node: Recursion, needed: set[int]) -> Pruned:
    everything = range(len(node.fields))
    anchor, step = exactly(node.anchor, everything), exactly(node.step, everything)
    return replace(node, anchor=anchor, step=step), unchanged(len(everything))


@PRUNING.of(WorkingTable, CommonRows)
def _prune_leaf(node: WorkingTable | CommonRows, needed: set[int]) -> Pruned:
    return node, unchanged(len(node.fields))


@EMPTY.of(Recursion)
def _empty_recursion(node: Recursion) -> Relation:
    if is_empty(node.anchor):
        return emptied(node)
    if not is_empty(node.step):
        return node
    names = tuple(item.name for item in node.fields)
    columns = references(node.fields)
    return (
        Aggregate(input=node.anchor, keys=columns, aggregates=(), names=names)
        if node.distinct
        else node.anchor
    )


ESTIMATES.add(lambda node, of: node.rows, CommonRows)


@STREAM_CHECKS.of(Recursion)
def _check_recursion(node: Recursion, unbounded_state: bool) -> None:
    if node.never_ends:
        raise NotSupportedError(
            "a recursive query cannot read a streaming source",
            detail="an input of this query has no end, so the first round would never end",
            hint="put a LIMIT into a subquery over the stream",
            position=node.position,
        )


CHOICES.add(lambda node, _: PhysicalWorkingTable(fields=node.fields, name=node.name), WorkingTable)


CHOICES.add(
    lambda node, _: PhysicalCommonRows(fields=node.fields, rows=node.rows, number=node.number),
    CommonRows,
)


@CHOICES.of(Recursion)
def _choose_recursion(node: Recursion, snapshot: Snapshot) -> Physical:
    # Loaded on first use: few statements have a recursion.
    from runnel.planner.physical.recursion import choose_recursion

    return choose_recursion(node, lambda relation: choose(relation, snapshot))


@EXPLAIN.of(Shared)
def _describe_shared(node: Shared) -> Description:
    return f"Shared {node.number}" + ("" if node.is_first else ", as before"), {}


@EXPLAIN.of(Spool)
def _describe_spool(node: Spool) -> Description:
    return "Hold", {}


@EXPLAIN.of(Recursion, PhysicalRecursion)
def _describe_recursion(node: Recursion | PhysicalRecursion) -> Description:
    return "Recursion", {"rows": "each once" if node.distinct else ""}


@EXPLAIN.of(WorkingTable, PhysicalWorkingTable)
def _describe_working_table(node: WorkingTable | PhysicalWorkingTable) -> Description:
    return f"Rows of the round before of {node.name}", {}


STATE_TEXTS.add(
    lambda node: "all rows" if node.distinct else "the rows of a round", PhysicalRecursion
)


@LOWERING.of(Shared)
def _lower_shared(to: Lowering, node: Shared) -> VertexOutput:
    if to.shared is None:
        # Loaded on first use: few queries read a stream twice.
        from runnel.planner.lower.shared import SharedVertices

        to.shared = SharedVertices()
    return to.shared.use(to, node)


@LOWERING.of(Spool)
def _lower_spool(to: Lowering, node: Spool) -> VertexOutput:
    from runnel.processors.spool import spool

    rows = to.lower(node.input)
    return to.follow(rows, HOLD, spool(), to.beside(rows))


@LOWERING.of(PhysicalRecursion)
def _lower_recursion(to: Lowering, node: PhysicalRecursion) -> VertexOutput:
    from runnel.planner.physical.recursion import schema_of, stage_definitions
    from runnel.processors.recursion import recursion

    inputs = [to.lower(item) for item in (*node.sides, node.anchor)]
    schema = schema_of(node)
    vertex = to.vertex(RECURSION, recursion(stage_definitions(node), schema, node.distinct), 1)
    for ordinal, rows in enumerate(inputs):
        priority = BUILD_PRIORITY if ordinal < len(node.sides) else PROBE_PRIORITY
        to.dag.edge(between(rows.vertex, vertex).to_input(ordinal).with_priority(priority))
    return VertexOutput(vertex, False, tuple(schema.names))


IDENTITY.add(lambda node: ("Hold", {}), Spool)


IDENTITY.add(
    lambda node: (
        "Recursion",
        {"rows": "each once" if node.distinct else ""},
    ),
    PhysicalRecursion,
)


@STATE_COLUMNS.of(Spool)
def _side_of_spool(node: Spool, index: int) -> tuple[str, Physical, int] | None:
    from runnel.planner.identity.state_columns import of_input

    return of_input(node, index)


@STATE_COLUMNS.of(Shared)
def _side_of_shared(node: Shared, index: int) -> Side:
    return "", node.shared, index


by_default(
    Recursion, CORRELATION, GRAFTING, HOISTING, ESTIMATES, ORIGINS, STATE_NAMES, REPLAY, MOST_ROWS
)
by_default(
    WorkingTable,
    CORRELATION,
    GRAFTING,
    HOISTING,
    ESTIMATES,
    ORIGINS,
    STATE_NAMES,
    REPLAY,
    BLOCKING,
    MOST_ROWS,
)
by_default(
    CommonRows, CORRELATION, GRAFTING, HOISTING, ORIGINS, STATE_NAMES, REPLAY, BLOCKING, MOST_ROWS
)
by_default(
    PhysicalRecursion,
    NARROWABLE,
    STAGES,
    STREAM_SHARING,
    TABLE_SHARING,
    WORTH_SHARING,
    READS_ALL,
    LATE_ROWS,
    STATE_FORMS,
    STATE_COLUMNS,
)
by_default(
    PhysicalWorkingTable,
    NARROWABLE,
    STATE_TEXTS,
    STAGES,
    STREAM_SHARING,
    TABLE_SHARING,
    WORTH_SHARING,
    READS_ALL,
    LATE_ROWS,
    IDENTITY,
    STATE_FORMS,
    STATE_COLUMNS,
)
by_default(
    PhysicalCommonRows,
    NARROWABLE,
    STATE_TEXTS,
    STAGES,
    STREAM_SHARING,
    WORTH_SHARING,
    READS_ALL,
    LATE_ROWS,
    IDENTITY,
    STATE_FORMS,
    STATE_COLUMNS,
)
by_default(Shared, NARROWABLE, STATE_TEXTS, WORTH_SHARING, READS_ALL, IDENTITY, STATE_FORMS)
by_default(Spool, NARROWABLE, STATE_TEXTS, WORTH_SHARING, READS_ALL, STATE_FORMS)
# Fewer input rows would change its result.
by_default(Recursion, PREDICATES, LIMITS)
by_default(PhysicalRecursion, DYNAMIC_FILTERS)
# It has no input.
by_default((WorkingTable, CommonRows), EMPTY, STREAM_CHECKS, FRAGMENT_INPUTS)
# It has no input to filter.
by_default((WorkingTable, CommonRows), PREDICATES)
# It has no input without end.
by_default((WorkingTable, CommonRows), BOUNDS, FINAL_ROWS)
# It has nowhere to put a limit.
by_default((WorkingTable, CommonRows), LIMITS)
# It is made after the stages.
by_default((Shared, Spool), STAGES)
# It is made afterwards.
by_default((Shared, Spool), LATE_ROWS)
# It is made by sharing.
by_default((Shared, Spool), STREAM_SHARING, TABLE_SHARING)
# It is refused on a stream.
by_default(Recursion, BOUNDS)
# It is refused on a stream, or by VERIFY JOB.
by_default(Recursion, FINAL_ROWS)
# It is replaced before lowering.
by_default((PhysicalWorkingTable, PhysicalCommonRows), LOWERING)
# It may have another reader.
by_default((PhysicalWorkingTable, PhysicalCommonRows, Shared, Spool), DYNAMIC_FILTERS)
# Its input is computed once for each round.
by_default(Recursion, FRAGMENT_INPUTS)
# No engine with a limit of memory runs it.
by_default(Recursion, BLOCKING)
# The plan that it stands for is shared.
by_default(PhysicalCommonRows, TABLE_SHARING)
# ???
not_met(CommonRows, EXPLAIN)
# Sharing replaces it.
not_met(PhysicalCommonRows, EXPLAIN)
RENDERED.add_classes(Recursion, WorkingTable)
by_default(CommonRows, RENDERED)
