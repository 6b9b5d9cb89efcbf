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
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
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
    from runnel.planner.live.maintained import Maintain, Maintained


@passes.MAINTENANCE.of(CommonRows)
def _maintain_common_rows(node: CommonRows, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import Maintained, refused

    if node.relation.is_unbounded:
        raise refused(node, "it is used too often to be copied to each of its uses")
    return Maintained(node)


@passes.PRUNING.of(Recursion)
def _prune_recursion(node: Recursion, needed: set[int]) -> Pruned:
    everything = range(len(node.fields))
    anchor, step = exactly(node.anchor, everything), exactly(node.step, everything)
    return replace(node, anchor=anchor, step=step), unchanged(len(everything))


@passes.PRUNING.of(WorkingTable, CommonRows)
def _prune_leaf(node: WorkingTable | CommonRows, needed: set[int]) -> Pruned:
    return node, unchanged(len(node.fields))


@passes.EMPTY.of(Recursion)
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


passes.ESTIMATES.add(lambda node, of: node.rows, CommonRows)


@passes.STREAM_CHECKS.of(Recursion)
def _check_recursion(node: Recursion, unbounded_state: bool) -> None:
    if node.never_ends:
        raise NotSupportedError(
            "a recursive query cannot read a streaming source",
            detail="an input of this query has no end, so the first round would never end",
            hint="put a LIMIT into a subquery over the stream",
            position=node.position,
        )


passes.CHOICES.add(
    lambda node, _: PhysicalWorkingTable(fields=node.fields, name=node.name), WorkingTable
)


passes.CHOICES.add(
    lambda node, _: PhysicalCommonRows(fields=node.fields, rows=node.rows, number=node.number),
    CommonRows,
)


@passes.CHOICES.of(Recursion)
def _choose_recursion(node: Recursion, snapshot: Snapshot) -> Physical:
    # Loaded on first use: few statements have a recursion.
    from runnel.planner.physical.recursion import choose_recursion

    return choose_recursion(node, lambda relation: choose(relation, snapshot))


@passes.EXPLAIN.of(Shared)
def _describe_shared(node: Shared) -> Description:
    return f"Shared {node.number}" + ("" if node.is_first else ", as before"), {}


@passes.EXPLAIN.of(Spool)
def _describe_spool(node: Spool) -> Description:
    return "Hold", {}


@passes.EXPLAIN.of(Recursion, PhysicalRecursion)
def _describe_recursion(node: Recursion | PhysicalRecursion) -> Description:
    return "Recursion", {"rows": "each once" if node.distinct else ""}


@passes.EXPLAIN.of(WorkingTable, PhysicalWorkingTable)
def _describe_working_table(node: WorkingTable | PhysicalWorkingTable) -> Description:
    return f"Rows of the round before of {node.name}", {}


passes.STATE_TEXTS.add(
    lambda node: "all rows" if node.distinct else "the rows of a round", PhysicalRecursion
)


@passes.LOWERING.of(Shared)
def _lower_shared(to: Lowering, node: Shared) -> VertexOutput:
    if to.shared is None:
        # Loaded on first use: few queries read a stream twice.
        from runnel.planner.lower.shared import SharedVertices

        to.shared = SharedVertices()
    return to.shared.use(to, node)


@passes.LOWERING.of(Spool)
def _lower_spool(to: Lowering, node: Spool) -> VertexOutput:
    from runnel.processors.spool import spool

    rows = to.lower(node.input)
    return to.follow(rows, HOLD, spool(), to.parallelism_of(rows))


@passes.LOWERING.of(PhysicalRecursion)
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


passes.IDENTITY.add(lambda node: ("Hold", {}), Spool)


passes.IDENTITY.add(
    lambda node: (
        "Recursion",
        {"rows": "each once" if node.distinct else ""},
    ),
    PhysicalRecursion,
)


@passes.STATE_COLUMNS.of(Spool)
def _side_of_spool(node: Spool, index: int) -> tuple[str, Physical, int] | None:
    from runnel.planner.identity.state_columns import of_input

    return of_input(node, index)


@passes.STATE_COLUMNS.of(Shared)
def _side_of_shared(node: Shared, index: int) -> Side:
    return "", node.shared, index


by_default(
    Recursion,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ESTIMATES,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.MOST_ROWS,
)
by_default(
    WorkingTable,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ESTIMATES,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    CommonRows,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    PhysicalRecursion,
    passes.NARROWABLE,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    PhysicalWorkingTable,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.IDENTITY,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    PhysicalCommonRows,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.IDENTITY,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    Shared,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.IDENTITY,
    passes.STATE_FORMS,
)
by_default(
    Spool,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.STATE_FORMS,
)
# Fewer input rows would change its result.
by_default(Recursion, passes.PREDICATES, passes.LIMITS)
by_default(PhysicalRecursion, passes.DYNAMIC_FILTERS)
# It has no input.
by_default((WorkingTable, CommonRows), passes.EMPTY, passes.STREAM_CHECKS, passes.FRAGMENT_INPUTS)
# It has no input to filter.
by_default((WorkingTable, CommonRows), passes.PREDICATES)
# It has no input without end.
by_default((WorkingTable, CommonRows), passes.BOUNDS, passes.FINAL_ROWS)
# It has nowhere to put a limit.
by_default((WorkingTable, CommonRows), passes.LIMITS)
# It is made after the stages.
by_default((Shared, Spool), passes.STAGES)
# It is made afterwards.
by_default((Shared, Spool), passes.LATE_ROWS)
# It is made by sharing.
by_default((Shared, Spool), passes.STREAM_SHARING, passes.TABLE_SHARING)
# It is refused on a stream.
by_default(Recursion, passes.BOUNDS)
# It is refused on a stream, or by VERIFY JOB.
by_default(Recursion, passes.FINAL_ROWS)
# It is replaced before lowering.
by_default((PhysicalWorkingTable, PhysicalCommonRows), passes.LOWERING)
# It may have another reader.
by_default((PhysicalWorkingTable, PhysicalCommonRows, Shared, Spool), passes.DYNAMIC_FILTERS)
# Its input is computed once for each round.
by_default(Recursion, passes.FRAGMENT_INPUTS)
# No engine with a limit of memory runs it.
by_default(Recursion, passes.BLOCKING)
# The plan that it stands for is shared.
by_default(PhysicalCommonRows, passes.TABLE_SHARING)
# ???
not_met(CommonRows, passes.EXPLAIN)
# Sharing replaces it.
not_met(PhysicalCommonRows, passes.EXPLAIN)
passes.RENDERED.add_classes(Recursion, WorkingTable)
by_default(CommonRows, passes.RENDERED)
by_default((Recursion, WorkingTable), passes.MAINTENANCE)
