"""Lowering: which vertices and edges come of a plan, with one processor per vertex and with
several."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.connector import SinkRequest, WriteMode
from runnel.dag import DAG, Routing
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import Expression, Literal, SortKey
from runnel.planner.explain.explain import dag_text
from runnel.planner.lower.dag_builder import lower
from runnel.planner.physical.choose import choose, choose_write
from runnel.planner.rules import apply
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    SetOperation,
    Sort,
    Union,
    Values,
    references,
)
from runnel.relation.unnest import Unnest
from runnel.sqltypes import BIGINT, VARCHAR
from tests.planner.relations import column, scan
from tests.sample_tables import companies, lines, sample_snapshot, trades


def number(value: int) -> Literal:
    return Literal(value=value, type=BIGINT)


def dag(relation: Relation, parallelism: int = 1) -> DAG:
    return lower(choose(apply(relation), sample_snapshot(())), parallelism)


def count(relation: Relation, *keys: str, distinct: bool = False) -> Aggregate:
    arguments = [column(relation, "ticker")] if distinct else []
    calls = (aggregate_call("COUNT", arguments, distinct=distinct),)
    columns = tuple(column(relation, key) for key in keys)
    return Aggregate(input=relation, keys=columns, aggregates=calls, names=(*keys, "n"))


def join(kind: JoinKind, computed_key: bool = False) -> Join:
    left, right = scan(trades()), scan(companies())
    width = len(left.fields)
    key: Expression = column(left, "ticker")
    if computed_key:
        key = build.call("concat", [key, key])
    equal = build.call("eq", [key, column(right, "__key", width)])
    return Join(kind=kind, left=left, right=right, condition=equal)


def test_a_filtered_projection_is_two_vertices() -> None:
    left = scan(trades())
    condition = build.call("gt", [column(left, "quantity"), number(1)])
    query = Project(
        input=Filter(input=left, condition=condition),
        expressions=(column(left, "ticker"),),
        names=("ticker",),
    )
    assert dag_text(dag(query)) == [
        "scan trades, 1 processor",
        "result, 1 processor",
        "  <- scan trades: unicast",
    ]


def test_one_processor_means_one_stage() -> None:
    assert dag_text(dag(count(scan(trades()), "ticker"))) == [
        "scan trades, 1 processor",
        "aggregate, 1 processor",
        "  <- scan trades: unicast",
        "result, 1 processor",
        "  <- aggregate: unicast",
    ]


def test_an_aggregation_accumulates_where_the_rows_are() -> None:
    assert dag_text(dag(count(scan(trades()), "ticker"), 4)) == [
        "scan trades, as many processors as there are partitions",
        "accumulate, 4 processors",
        "  <- scan trades: isolated",
        "combine, 4 processors",
        "  <- accumulate: partitioned by k0",
        "result, 1 processor",
        "  <- combine: unicast",
    ]
    without_keys = dag(count(scan(trades())), 4)
    assert without_keys.vertices["combine"].parallelism == 1


def test_slow_arguments_and_keys_are_worked_out_in_pieces() -> None:
    """One call of a processor takes one batch: an operator that is slow on each row gets small
    ones."""
    rows = scan(trades())
    text = build.call("TO_CHAR", [column(rows, "ts"), Literal(value="YYYY", type=VARCHAR)])
    slow = build.call("REGEXP_EXTRACT", [text, text])
    by_key = Aggregate(input=rows, keys=(slow,), aggregates=(), names=("year",))
    of_all = Aggregate(
        input=rows, keys=(), aggregates=(aggregate_call("MAX", [slow]),), names=("last",)
    )
    for relation in (by_key, of_all):
        assert dag_text(dag(relation, 4))[1:5] == [
            "pieces, 4 processors",
            "  <- scan trades: isolated",
            "accumulate, 4 processors",
            "  <- pieces: isolated",
        ]


def test_a_distinct_aggregate_meets_by_key() -> None:
    by_key = dag(count(scan(trades()), "ts", distinct=True), 4)
    assert "  <- scan trades: partitioned by ts" in dag_text(by_key)
    assert by_key.vertices["aggregate"].parallelism == 4
    alone = dag(count(scan(trades()), distinct=True), 4)
    assert alone.vertices["aggregate"].parallelism == 1


@pytest.mark.parametrize(
    "kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.NULL_ANTI, JoinKind.MARK]
)
def test_a_join_gives_the_build_side_to_every_processor(kind: JoinKind) -> None:
    made = dag(join(kind), 4)
    build_edge, probe_edge = made.inputs("join")
    assert (build_edge.source, build_edge.routing, build_edge.priority) == (
        "scan companies",
        Routing.BROADCAST,
        0,
    )
    assert (probe_edge.source, probe_edge.routing, probe_edge.priority) == (
        "scan trades",
        Routing.ISOLATED,
        1,
    )
    assert made.vertices["join"].parallelism == 4


@pytest.mark.parametrize("kind", [JoinKind.RIGHT, JoinKind.FULL])
def test_a_join_that_keeps_the_build_side_divides_by_key(kind: JoinKind) -> None:
    made = dag(join(kind), 4)
    assert [(edge.routing, edge.keys) for edge in made.inputs("join")] == [
        (Routing.PARTITIONED, ("__key",)),
        (Routing.PARTITIONED, ("ticker",)),
    ]
    alone = dag(join(kind, computed_key=True), 4)
    assert alone.vertices["join"].parallelism == 1
    assert {edge.routing for edge in alone.inputs("join")} == {Routing.UNICAST}


def test_the_build_side_is_read_first_also_with_one_processor() -> None:
    made = dag(join(JoinKind.INNER))
    assert [edge.priority for edge in made.inputs("join")] == [0, 1]


def test_order_ends_in_one_processor_and_stays_there() -> None:
    left = scan(trades())
    ordered = Sort(input=left, keys=(SortKey(column(left, "price")),))
    assert dag_text(dag(ordered, 4))[-4:] == [
        "sort, 1 processor",
        "  <- scan trades: unicast",
        "result, 1 processor",
        "  <- sort: unicast",
    ]
    computed = Project(
        input=ordered,
        expressions=(build.call("concat", [column(left, "ticker")] * 2),),
        names=("t",),
    )
    assert dag(computed, 4).vertices["calc"].parallelism == 1


def test_the_first_rows_are_found_in_two_stages() -> None:
    left = scan(trades())
    ordered = Sort(input=left, keys=(SortKey(column(left, "price")),))
    made = dag(Limit(input=ordered, count=number(3), offset=number(2)), 4)
    assert [name for name in made.vertices if name.startswith("top")] == [
        "top per processor",
        "top",
    ]
    assert (made.vertices["top per processor"].parallelism, made.vertices["top"].parallelism) == (
        4,
        1,
    )


def test_an_ordered_index_scan_is_read_by_one_processor() -> None:
    left = scan(trades())
    ordered = Sort(input=left, keys=(SortKey(column(left, "ts")),))
    made = lower(choose(apply(ordered), sample_snapshot()), 4)
    assert dag_text(made)[0] == "scan trades using by_ts, 1 processor"
    assert left.table.sources[-1].lookup.ordered  # type: ignore[attr-defined]


def every_relation() -> list[Relation]:
    left, right, text = scan(trades()), scan(companies()), scan(lines())
    part = Project(input=left, expressions=(column(left, "ticker"),), names=("t",))
    other = Project(input=right, expressions=(column(right, "__key"),), names=("t",))
    series = Generate(
        function="generate_series",
        arguments=(number(1), number(5), number(1)),
        columns=(part.fields[0]._replace(name="v", type=BIGINT),),
    )
    return [
        *(join(kind) for kind in JoinKind if kind is not JoinKind.CROSS),
        Join(kind=JoinKind.CROSS, left=left, right=right),
        count(join(JoinKind.INNER), "name"),
        SetOperation(operation="intersect", all=False, left=part, right=other),
        SetOperation(operation="except", all=True, left=part, right=part),
        Union(parts=(part, other, part)),
        Aggregate(
            input=Union(parts=(part, other)),
            keys=references(part.fields),
            aggregates=(),
            names=("t",),
        ),
        Unnest(input=text, arrays=(column(text, "words"),), names=("word",), ordinality="at"),
        Limit(input=left, count=number(2), offset=None),
        Values(rows=((number(1),),), columns=(series.columns[0],)),
        series,
        Join(kind=JoinKind.INNER, left=join(JoinKind.LEFT), right=count(scan(trades()), "ticker")),
    ]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("relation", every_relation(), ids=lambda item: type(item).__name__)
def test_every_dag_is_a_tree_with_one_result(relation: Relation, parallelism: int) -> None:
    made = dag(relation, parallelism)
    order = made.validate()
    assert order[-1].name == "result"
    assert made.outputs("result") == []
    for vertex in order[:-1]:
        assert len(made.outputs(vertex.name)) == 1
    if parallelism == 1:
        assert {vertex.parallelism for vertex in order} == {1}
        assert {edge.routing for edge in made.edges} == {Routing.UNICAST}


def test_isolated_edges_join_only_vertices_that_run_side_by_side() -> None:
    for relation in every_relation():
        made = dag(relation, 3)
        for edge in made.edges:
            if edge.routing is Routing.ISOLATED:
                assert made.vertices[edge.target].parallelism == 3
                assert made.vertices[edge.source].parallelism in (None, 3)


def test_a_table_scanned_twice_is_two_vertices() -> None:
    left = scan(trades())
    names = list(dag(Union(parts=(left, left))).vertices)
    assert names == ["scan trades", "scan trades 2", "union", "result"]


def test_the_source_is_asked_once_per_lowering() -> None:
    table = trades()
    chosen = choose(apply(scan(table)), sample_snapshot(()))
    assert table.sources == []
    lower(chosen, 1)
    assert len(table.sources) == 1


def test_a_write_runs_alone_and_gives_its_count() -> None:
    table: Any = trades()
    rows = Values(rows=((number(1),),), columns=scan(table).fields[:1])
    made = lower(
        choose_write(apply(rows), sample_snapshot(()), table, SinkRequest(WriteMode.SINK, (0,))), 4
    )
    assert list(made.vertices) == ["values", "write trades", "result"]
    assert {vertex.parallelism for vertex in made.vertices.values()} == {1}
