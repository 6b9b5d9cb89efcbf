"""The home of INTERSECT, EXCEPT and UNION ALL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import Expression
from runnel.planner.estimates import Of, estimate
from runnel.planner.lower.dag_builder import UNION, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose, choose_as
from runnel.planner.physical.nodes import (
    Physical,
    PhysicalUnion,
    TwoInputs,
    column_names,
)
from runnel.planner.rewriting import divide
from runnel.planner.rules.column_pruning import Pruned, exactly, unchanged
from runnel.planner.rules.empty_relations import emptied, is_empty
from runnel.planner.rules.limit_pushdown import limited, rows_needed
from runnel.planner.rules.predicate_pushdown import Conjuncts, push, retained
from runnel.relation.nodes import Limit, Project, Relation, SetOperation, Union, references
from runnel.relation.subqueries import OuterColumn

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.pulled import Pulled


@frozen(kw_only=True)
class PhysicalSetOperation(TwoInputs):
    """INTERSECT or EXCEPT.

    operation: "intersect" or "except".
    all: whether duplicates are counted (ALL) or removed.
    """

    family = "set_operations"

    operation: str
    all: bool


@passes.PRUNING.of(Union)
def _prune_union(node: Union, needed: set[int]) -> Pruned:
    kept = sorted(needed)
    parts = tuple(exactly(part, kept) for part in node.parts)
    return replace(node, parts=parts), {index: place for place, index in enumerate(kept)}


@passes.PRUNING.of(SetOperation)
def _prune_set_operation(node: SetOperation, needed: set[int]) -> Pruned:
    everything: Sequence[int] = range(len(node.fields))
    left, right = exactly(node.left, everything), exactly(node.right, everything)
    return replace(node, left=left, right=right), unchanged(len(node.fields))


@passes.PREDICATES.of(Union)
def _push_union(node: Union, parts: Conjuncts) -> Relation:
    moving, staying = divide(parts, lambda part: True, True)
    return retained(replace(node, parts=tuple(push(item, moving) for item in node.parts)), staying)


@passes.PREDICATES.of(SetOperation)
def _push_set_operation(node: SetOperation, parts: Conjuncts) -> Relation:
    moving, staying = divide(parts, lambda part: True, False)
    return retained(
        replace(node, left=push(node.left, moving), right=push(node.right, moving)), staying
    )


@passes.EMPTY.of(Union)
def _empty_union(node: Union) -> Relation:
    branches = tuple(item for item in node.parts if not is_empty(item))
    if not branches:
        return emptied(node)
    if len(branches) == len(node.parts):
        return node
    fields = node.fields
    if len(branches) > 1 and branches[0].fields == fields:
        return replace(node, parts=branches)
    rest = branches[0] if len(branches) == 1 else replace(node, parts=branches)
    if rest.fields == fields:
        return rest
    return Project(
        input=rest, expressions=references(rest.fields), names=tuple(item.name for item in fields)
    )


@passes.LIMITS.of(Union)
def _limit_union(node: Union, limit: Limit) -> Relation:
    rows = rows_needed(limit)
    if rows is None:
        return limit
    return replace(
        limit, input=replace(node, parts=tuple(limited(item, rows) for item in node.parts))
    )


@passes.CORRELATION.of(Union)
def _pull_union(to: Anchoring, node: Union) -> Pulled:
    from runnel.planner.rules.decorrelation.pulled import Pulled

    relations, count, parts = _branches(to, node.parts)
    relation = replace(node, parts=tuple(relations))
    return Pulled(relation, references(relation.fields)[:count], parts)


@passes.CORRELATION.of(SetOperation)
def _pull_set_operation(to: Anchoring, node: SetOperation) -> Pulled:
    from runnel.planner.rules.decorrelation.pulled import Pulled

    (left, right), count, parts = _branches(to, node.inputs)
    relation = replace(node, left=left, right=right)
    return Pulled(relation, references(relation.fields)[:count], parts)


def _branches(
    to: Anchoring, nodes: Iterable[Relation]
) -> tuple[list[Relation], int, tuple[Expression, ...]]:
    """The branches of a set operation with the outer values as further columns, the number of
    columns before, and the conditions."""
    from runnel.planner.rules.decorrelation.pulled import (
        fails,
        outer_indexes,
        outer_sides,
        provided,
        same_as,
        with_outer,
    )

    pulled = [to.rows(node) for node in nodes]
    indexes = set().union(*(outer_indexes((*item.parts, *item.columns)) for item in pulled))
    relations: list[Relation] = []
    outer: dict[int, OuterColumn] = {}
    count = 0
    for item in pulled:
        reached = any(map(fails, item.columns))
        anchored = to.anchor(item, indexes, reached=reached, plain=True)
        outer |= {column.index: column for part in anchored.parts for column in outer_sides(part)}
        values = provided(anchored.parts)
        columns = [with_outer(column, values) for column in anchored.columns]
        count = len(columns)
        names = (*(f"$value{i}" for i in range(count)), *(f"$outer{i}" for i in sorted(indexes)))
        expressions = (*columns, *(values[i] for i in sorted(indexes)))
        relations.append(Project(input=anchored.relation, expressions=expressions, names=names))
    columns_of_outer = references(relations[0].fields)[count:]
    parts = tuple(
        same_as(outer[i], at) for i, at in zip(sorted(indexes), columns_of_outer, strict=True)
    )
    return relations, count, parts


passes.ESTIMATES.add(lambda node, of: of(node.left), SetOperation)


@passes.ESTIMATES.of(Union)
def _estimate_union(node: Union, of: Of) -> int | None:
    parts = [of(part) for part in node.parts]
    known = [rows for rows in parts if rows is not None]
    return sum(known) if len(known) == len(parts) else None


@passes.BOUNDS.of(Union)
def _bounds_of_union(node: Union) -> Bounds:
    from runnel.planner.event_time.bounds import union_watermarks

    return union_watermarks(node)[0]


@passes.STREAM_CHECKS.of(SetOperation)
def _check_set_operation(node: SetOperation, unbounded_state: bool) -> None:
    if node.never_ends:
        raise NotSupportedError(
            f"{node.operation.upper()} is not supported for a streaming query",
            detail="an input of this query has no end",
            hint="use UNION ALL, or put a LIMIT into a subquery over the stream",
            position=node.position,
        )


@passes.MAINTENANCE.of(Union)
def _maintain_union(node: Union, maintain: Maintain) -> Maintained:
    from runnel.planner.live.maintained import Maintained, with_weights

    parts = tuple(map(maintain, node.parts))
    if not any(part.is_changing for part in parts):
        return Maintained(replace(node, parts=tuple(part.relation for part in parts)))
    return Maintained(replace(node, parts=tuple(map(with_weights, parts))), is_changing=True)


@passes.MAINTENANCE.of(SetOperation)
def _maintain_set_operation(node: SetOperation, maintain: Maintain) -> Maintained:
    from runnel.planner.live.set_operations import maintained_set_operation

    return maintained_set_operation(node, node.operation, maintain, is_all=node.all)


passes.FINAL_ROWS.add(lambda node: True, Union)


passes.FRAGMENT_INPUTS.add_classes(SetOperation, Union)


passes.BLOCKING.add(lambda node: "compare", SetOperation)


@passes.MOST_ROWS.of(Union, SetOperation)
def _most_rows_of_all_inputs(node: Relation) -> int | None:
    """The most rows of a node that returns rows of all its inputs."""
    from runnel.planner.pushdown.memory_need import most_rows

    known = [rows for rows in map(most_rows, node.inputs) if rows is not None]
    return sum(known) if known else None


@passes.CHOICES.of(Union)
def _choose_union(node: Union, snapshot: Snapshot) -> Physical:
    branches = tuple(choose(branch, snapshot) for branch in node.parts)
    watermarks = None
    if node.is_unbounded:
        from runnel.planner.event_time.bounds import union_watermarks

        watermarks = union_watermarks(node)[1]
    return PhysicalUnion(
        fields=node.fields, rows=estimate(node), parts=branches, watermarks=watermarks
    )


passes.CHOICES.add(choose_as(PhysicalSetOperation), SetOperation)


@passes.EXPLAIN.of(Union, PhysicalUnion)
def _describe_union(node: Union | PhysicalUnion) -> Description:
    return "Union all", {}


@passes.EXPLAIN.of(SetOperation, PhysicalSetOperation)
def _describe_set_operation(node: SetOperation | PhysicalSetOperation) -> Description:
    return node.operation.capitalize() + (" all" if node.all else ""), {}


passes.STATE_TEXTS.add(lambda node: "all rows of both inputs", PhysicalSetOperation)


@passes.LOWERING.of(PhysicalUnion)
def _lower_union(to: Lowering, node: PhysicalUnion) -> VertexOutput:
    from runnel.processors.union import union

    parts = [to.lower(part) for part in node.parts]
    names = column_names(node.fields)
    is_parallel = any(part.is_parallel for part in parts)
    parallelism = to.parallelism if is_parallel else 1
    vertex = to.vertex(UNION, union(names), parallelism)
    for ordinal, part in enumerate(parts):
        to.connect(
            part,
            vertex,
            parallelism,
            ordinal,
            None if node.watermarks is None else node.watermarks[ordinal],
        )
    return VertexOutput(vertex, is_parallel, names)


@passes.LOWERING.of(PhysicalSetOperation)
def _lower_set_operation(to: Lowering, node: PhysicalSetOperation) -> VertexOutput:
    from runnel.processors.grouping.set_operation import set_operation

    inputs = (to.lower(node.left), to.lower(node.right))
    names = column_names(node.fields)
    vertex = to.vertex(node.operation, set_operation(node.operation, node.all), 1)
    for ordinal, rows in enumerate(inputs):
        to.connect(rows, vertex, 1, ordinal)
    return VertexOutput(vertex, False, names)


passes.TABLE_SHARING.add_classes(PhysicalUnion, PhysicalSetOperation)


passes.WORTH_SHARING.add_classes(PhysicalSetOperation)


@passes.DYNAMIC_FILTERS.of(PhysicalUnion)
def _narrow_union(node: PhysicalUnion, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import narrow

    parts = [narrow(part, keys, feed) for part in node.parts]
    if not any(parts):
        return None
    return replace(
        node, parts=tuple(new or old for new, old in zip(parts, node.parts, strict=True))
    )


@passes.LATE_ROWS.of(PhysicalUnion)
def _late_rows_of_union(node: PhysicalUnion) -> Physical:
    from runnel.planner.physical.late_rows import passing_late

    branches = tuple(map(passing_late, node.parts))
    is_same = all(new is old for new, old in zip(branches, node.parts, strict=True))
    return node if is_same else replace(node, parts=branches)


passes.IDENTITY.add(
    lambda node: (
        node.operation.capitalize() + (" all" if node.all else ""),
        {},
    ),
    PhysicalSetOperation,
)


passes.IDENTITY.add(lambda node: ("Union all", {}), PhysicalUnion)


by_default(
    SetOperation,
    passes.EMPTY,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
)
by_default(
    Union,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ORIGINS,
    passes.STREAM_CHECKS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
)
by_default(
    PhysicalSetOperation,
    passes.NARROWABLE,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    PhysicalUnion,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# Fewer input rows would change its result.
by_default(SetOperation, passes.LIMITS)
# It is refused on a stream.
by_default(SetOperation, passes.BOUNDS)
# It is refused on a stream, or by VERIFY JOB.
by_default(SetOperation, passes.FINAL_ROWS)
passes.RENDERED.add_classes(SetOperation, Union)
