"""The home of the operators of joins that read one side first, or look rows up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.dag import between
from runnel.planner.lower.dag_builder import (
    BUILD_PRIORITY,
    JOIN,
    LOOK_UP,
    PROBE_PRIORITY,
    Lowering,
    VertexOutput,
    key_names,
)
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.operators.row_by_row import late_rows_of_input
from runnel.planner.physical.nodes import HashJoin, Physical, column_names
from runnel.planner.physical.stream_nodes import LookupJoin
from runnel.planner.rewriting import renumber
from runnel.relation.nodes import MARKS, JoinKind

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.identity.state_columns import Side
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.processors.recursion import StageDefinition


passes.NARROWABLE.add_classes(HashJoin, LookupJoin)


@passes.EXPLAIN.of(HashJoin)
def _describe_hash_join(node: HashJoin) -> Description:
    from runnel.planner.explain.parts import field_names, join_title, optional, pairs

    how = " by hash" if node.probe_keys else "" if node.condition is None else " by nested loop"
    return join_title(node.kind, how), {
        "on": pairs(node.probe_keys, node.build_keys, node.null_safe),
        "where": optional(node.condition),
        "build": "second input"
        + (", divided by key" if node.is_partitioned else _refreshed_every(node)),
        "columns": "" if node.columns is None else ", ".join(field_names(node.fields)) or "none",
    }


def _refreshed_every(node: HashJoin) -> str:
    """How often a join reads its table again, as people read it, after a comma; empty where it
    reads it once."""
    if node.refresh is None:
        return ""
    time = f"{node.refresh} ms" if node.refresh % 1000 else f"{node.refresh // 1000} s"
    return f", refreshed every {time}"


@passes.EXPLAIN.of(LookupJoin)
def _describe_lookup_join(node: LookupJoin) -> Description:
    from runnel.planner.explain.parts import field_names, join_title

    table = node.lookup.table
    names = [table.columns[place].name for place in table.key_columns]
    return join_title(node.kind, f" by look-up in {table.name}"), {
        "key": ", ".join(f"{name} = {key}" for name, key in zip(names, node.keys, strict=True)),
        "where": " AND ".join(
            str(item) for item in (node.lookup.predicate, node.condition) if item is not None
        ),
        "values": "as they are when the row comes",
        "columns": "" if node.columns is None else ", ".join(field_names(node.fields)) or "none",
    }


@passes.STATE_TEXTS.of(HashJoin)
def _state_of_hash_join(node: HashJoin) -> str:

    if node.refresh is not None:
        return (
            f"all rows of the second input{_refreshed_every(node)}, and the rows of its next "
            "version while that is read"
        )
    return "all rows of the second input, which is read once, first"


@passes.LOWERING.of(HashJoin)
def _lower_join(to: Lowering, node: HashJoin) -> VertexOutput:
    if node.refresh is not None:
        from runnel.planner.lower.streams import lower_refreshed_join

        return lower_refreshed_join(to, node)
    from runnel.processors.joins.join import JoinShape, join

    build = to.lower(node.build)
    probe = to.in_chunks(
        to.lower(node.probe),
        (*node.probe_keys, *(() if node.condition is None else (node.condition,))),
    )
    names = column_names(node.fields)
    keys, fields = (node.probe_keys, node.build_keys), (node.probe.fields, node.build.fields)
    shape = JoinShape(
        node.kind, node.condition, node.columns, node.null_safe, position=node.position
    )
    build_keys, probe_keys = (
        key_names(node.build_keys, build.names),
        key_names(node.probe_keys, probe.names),
    )
    can_divide = node.is_partitioned and bool(build_keys) and bool(probe_keys)
    supplier = join(shape, keys, fields, names, build_keys if can_divide else ())
    whole_build = node.kind not in (JoinKind.RIGHT, JoinKind.FULL)
    is_parallel = to.parallelism > 1 and (
        (can_divide and (probe.is_parallel or build.is_parallel))
        or (whole_build and probe.is_parallel)
    )
    parallelism = to.parallelism if is_parallel else 1
    vertex = to.vertex(JOIN, supplier, parallelism)
    build_edge = between(build.vertex, vertex).with_priority(BUILD_PRIORITY)
    probe_edge = between(probe.vertex, vertex).to_input(1).with_priority(PROBE_PRIORITY)
    if is_parallel and can_divide:
        build_edge, probe_edge = (
            build_edge.partitioned(*build_keys),
            probe_edge.partitioned(*probe_keys),
        )
    elif is_parallel:
        build_edge, probe_edge = build_edge.broadcast(), probe_edge.isolated()
    to.dag.edge(build_edge).edge(probe_edge)
    return VertexOutput(vertex, is_parallel, names)


@passes.LOWERING.of(LookupJoin)
def _lower_lookup_join(to: Lowering, node: LookupJoin) -> VertexOutput:
    from runnel.processors.joins.build_side import JoinShape
    from runnel.processors.joins.lookup import lookup_join

    rows = to.lower(node.input)
    names = column_names(node.fields)
    shape = JoinShape(node.kind, node.condition, node.columns)
    supplier = lookup_join(node.lookup, shape, node.keys, (node.input.fields, node.right), names)
    return to.follow(
        rows, f"{LOOK_UP}{node.lookup.table.name}", supplier, to.parallelism_of(rows), names
    )


@passes.STAGES.of(HashJoin)
def _stage_of_join(node: HashJoin) -> StageDefinition:
    from runnel.processors.joins.join import JoinShape, join
    from runnel.processors.recursion import StageDefinition

    shape = JoinShape(
        node.kind,
        node.condition,
        node.columns,
        node.null_safe,
        answers_at_once=True,
        position=node.position,
    )
    keys, fields = (node.probe_keys, node.build_keys), (node.probe.fields, node.build.fields)
    return StageDefinition(join(shape, keys, fields, column_names(node.fields)))


passes.TABLE_SHARING.add_classes(HashJoin)


passes.WORTH_SHARING.add_classes(HashJoin)


_PASSES_PROBE = (
    *(
        JoinKind.INNER,
        JoinKind.CROSS,
        JoinKind.LEFT,
        JoinKind.SEMI,
        JoinKind.ANTI,
        JoinKind.NULL_ANTI,
    ),
    *(JoinKind.SINGLE, *MARKS),
)


_PASSES_BUILD = (JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT)
"""Joins below another one each of whose rows is of one row of that side: without it, nothing else
changes."""


@passes.DYNAMIC_FILTERS.of(HashJoin)
def _narrow_join(node: HashJoin, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import columns_of_keys, narrow

    if node.refresh is not None:
        return None
    if node.columns is not None:
        keys = tuple(renumber(key, dict(enumerate(node.columns))) for key in keys)
    read, width = columns_of_keys(keys), len(node.probe.fields)
    if node.kind in _PASSES_PROBE and read <= set(range(width)):
        probe = narrow(node.probe, keys, feed)
        return None if probe is None else replace(node, probe=probe)
    if node.kind in _PASSES_BUILD and all(index >= width for index in read):
        places = {index: index - width for index in read}
        build = narrow(node.build, tuple(renumber(key, places) for key in keys), feed)
        return None if build is None else replace(node, build=build)
    return None


passes.LATE_ROWS.add(late_rows_of_input, LookupJoin)


@passes.LATE_ROWS.of(HashJoin)
def _late_rows_of_hash_join(node: HashJoin) -> Physical:
    from runnel.planner.physical.late_rows import passing_late

    probe = passing_late(node.probe)
    return node if probe is node.probe else replace(node, probe=probe)


@passes.IDENTITY.of(HashJoin)
def _identify_hash_join(node: HashJoin) -> Identity:
    from runnel.planner.identity.nodes import JOINS, chosen, optional_text, pairs

    how = " by hash" if node.probe_keys else "" if node.condition is None else " by nested loop"
    divided = ", divided by key" if node.is_partitioned else _refreshed(node.refresh)
    return f"{JOINS[node.kind]}{how}", {
        "on": pairs(node.probe_keys, node.build_keys, node.null_safe),
        "where": optional_text(node.condition),
        "build": f"second input{divided}",
        "columns": chosen(node),
    }


@passes.IDENTITY.of(LookupJoin)
def _identify_lookup_join(node: LookupJoin) -> Identity:
    from runnel.planner.identity.expressions import text
    from runnel.planner.identity.nodes import JOINS, chosen

    table = node.lookup.table
    names = [table.columns[place].name for place in table.key_columns]
    conditions = [
        text(item) for item in (node.lookup.predicate, node.condition) if item is not None
    ]
    return f"{JOINS[node.kind]} by look-up in {table.name}", {
        "key": ", ".join(
            f"{name} = {text(key)}" for name, key in zip(names, node.keys, strict=True)
        ),
        "where": " AND ".join(conditions),
        "values": "as they are when the row comes",
        "columns": chosen(node),
    }


def _refreshed(millis: int | None) -> str:
    if millis is None:
        return ""
    return f", refreshed every {f'{millis} ms' if millis % 1000 else f'{millis // 1000} s'}"


@passes.STATE_COLUMNS.of(HashJoin)
def _side_of_hash_join(node: HashJoin, index: int) -> Side | None:
    from runnel.planner.identity.state_columns import of_join

    return of_join(("", node.probe), ("table.", node.build), node.columns, index)


@passes.STATE_COLUMNS.of(LookupJoin)
def _side_of_lookup_join(node: LookupJoin, index: int) -> Side | None:
    own = index if node.columns is None else node.columns[index]
    return ("", node.input, own) if own < len(node.input.fields) else None


by_default(HashJoin, passes.STREAM_SHARING, passes.READS_ALL, passes.STATE_FORMS)
by_default(
    LookupJoin,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.STATE_FORMS,
)
