"""The home of the joins of live queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.dag import between
from runnel.errors import NotSupportedError, Position
from runnel.expressions.nodes import Expression
from runnel.planner.estimates import Of
from runnel.planner.lower.dag_builder import LIVE_JOIN, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
from runnel.planner.physical.choose import choose_as
from runnel.planner.physical.nodes import TwoInputs, column_names
from runnel.relation.live import LiveJoin
from runnel.relation.nodes import JoinKind, references
from runnel.sqltypes import to_arrow

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity


@frozen(kw_only=True)
class PhysicalLiveJoin(TwoInputs):
    """The changes of a join. The fields are as in LiveJoin.

    position: of the join in the statement, or of the subquery that it replaces.
    """

    family = "streams.live_joins"

    kind: JoinKind
    keys: int
    null_safe: tuple[int, ...]
    condition: Expression | None
    changing: tuple[bool, bool]
    is_changing: bool
    position: Position | None = None


passes.CHOICES.add(choose_as(PhysicalLiveJoin), LiveJoin)


@passes.STREAM_CHECKS.of(LiveJoin)
def _check(node: LiveJoin, unbounded_state: bool) -> None:
    if node.compares_all and not unbounded_state:
        raise NotSupportedError(
            "a join of rows without an end needs an equality between both sides",
            detail="each new row would be compared with all earlier rows of the other side",
            hint="add a condition such as a.key = b.key; or end the SELECT with OPTIONS "
            "('allowUnboundedState'='true')",
            position=node.position,
        )


@passes.ESTIMATES.of(LiveJoin)
def _estimate(node: LiveJoin, of: Of) -> int | None:
    return None


@passes.EXPLAIN.of(LiveJoin, PhysicalLiveJoin)
def _describe(node: LiveJoin | PhysicalLiveJoin) -> Description:
    from runnel.planner.explain.parts import join_title, listed, optional, pairs

    left, right = (references(item.fields)[: node.keys] for item in node.inputs)
    arranged = [
        f"{side} by {listed(keys) or 'nothing'}"
        for side, keys in (("first input", left), ("second input", right))
    ]
    title = join_title(node.kind)
    return f"Live {title[0].lower()}{title[1:]}", {
        "on": pairs(left, right, node.null_safe),
        "where": optional(node.condition),
        "arrangements": ", ".join(arranged),
    }


@passes.STATE_TEXTS.of(PhysicalLiveJoin)
def _state(node: PhysicalLiveJoin) -> str:
    if node.kind is JoinKind.INNER:
        return "all rows of both inputs, without bound"
    return "all rows of both inputs, and the rows that have a match, without bound"


@passes.LOWERING.of(PhysicalLiveJoin)
def _lower(to: Lowering, node: PhysicalLiveJoin) -> VertexOutput:
    from runnel.processors.live.joined_rows import LiveJoinShape, live_join

    sides = (to.lower(node.left), to.lower(node.right))
    names = column_names(node.fields)
    left, right = (
        tuple(to_arrow(item.type) for item in (side.fields[:-1] if changes else side.fields))
        for side, changes in zip(node.inputs, node.changing, strict=True)
    )
    shape = LiveJoinShape(
        node.kind,
        node.keys,
        node.null_safe,
        node.condition,
        node.changing,
        (left, right),
        node.position,
    )
    count = len(node.fields) - node.is_changing
    supplier = live_join(shape, names[:count], node.fields[:count], is_changing=node.is_changing)
    is_parallel = to.parallelism > 1 and node.keys > 0 and any(side.is_parallel for side in sides)
    vertex = to.vertex(LIVE_JOIN, supplier, to.parallelism if is_parallel else 1)
    for ordinal, side in enumerate(sides):
        edge = between(side.vertex, vertex).to_input(ordinal)
        to.dag.edge(edge.partitioned(*side.names[: node.keys]) if is_parallel else edge)
    return VertexOutput(vertex, is_parallel, names)


@passes.IDENTITY.of(PhysicalLiveJoin)
def _identify(node: PhysicalLiveJoin) -> Identity:
    from runnel.planner.identity.nodes import JOINS, arranged, optional_text

    return f"Live {JOINS[node.kind].lower()}", {
        "keys": str(node.keys),
        "null-safe": ", ".join(map(str, node.null_safe)),
        "where": optional_text(node.condition),
        "left": arranged(node.left),
        "right": arranged(node.right),
        "changing": ", ".join("yes" if item else "no" for item in node.changing),
    }


not_met(LiveJoin, passes.PRUNING)
by_default(
    LiveJoin,
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
    passes.MAINTENANCE,
    passes.FRAGMENT_INPUTS,
    passes.RENDERED,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    PhysicalLiveJoin,
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
