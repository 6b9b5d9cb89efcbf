"""Vertices of operators that only queries on streams have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.dag import Vertex, between
from runnel.expressions.nodes import Column
from runnel.planner import physical
from runnel.planner.physical import column_names

if TYPE_CHECKING:
    from runnel.planner.lower import _Lowering, _Output


def lower_interval_join(
    to: _Lowering, node: physical.IntervalJoin, left: _Output, right: _Output
) -> tuple[Vertex, bool, tuple[str, ...]]:
    """The vertex of a join of two streams, whether several processors run it, and the names of its columns. Several do where
    there are keys that are columns of both sides, by which the rows are divided."""
    from runnel.processors.interval_join import interval_join
    from runnel.processors.join_table import JoinShape

    names = column_names(node.fields)
    pairs = [
        (left.names[first.index], right.names[second.index])
        for first, second in zip(node.left_keys, node.right_keys, strict=True)
        if isinstance(first, Column) and isinstance(second, Column)
    ]
    keys = (tuple(first for first, _ in pairs), tuple(second for _, second in pairs))
    is_parallel = to.parallelism > 1 and bool(pairs)
    supplier = interval_join(
        (JoinShape(node.kind, node.condition, node.columns, node.null_safe), node.times),
        (node.left_keys, node.right_keys),
        (node.left.fields, node.right.fields),
        names,
        keys,
    )
    vertex = to.vertex("join", supplier, to.parallelism if is_parallel else 1)
    for ordinal, (rows, side) in enumerate(((left, node.times.left), (right, node.times.right))):
        edge = between(rows.vertex, vertex).to_input(ordinal).with_watermarks({number: number for number in side.numbers})
        to.dag.edge(edge.partitioned(*keys[ordinal]) if is_parallel else edge)
    return vertex, is_parallel, names
