"""The search for an order: the exact one against all orders, the greedy one, and their work."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.nodes import Call, Column
from runnel.planner.rules.join_order.exact import MOST_PAIRS, _pairs, best_order
from runnel.planner.rules.join_order.graph import JoinGraph, bits
from runnel.planner.rules.join_order.greedy import components, greedy_order
from runnel.planner.rules.join_order.order import order_joins
from runnel.planner.rules.join_order.sizes import Joined, Sizes
from runnel.relation.nodes import Field, Values
from runnel.sqltypes import BIGINT, BOOLEAN
from tests.planner.rules.join_order.generated import SHAPES, case
from tests.planner.test_planning_time import _calls


def _sizes(shape: str, number: int, random: Random) -> Sizes:
    """Relations of random sizes, joined by the edges of a shape, each by columns of its own."""
    edges = SHAPES[shape](number, random)
    graph = JoinGraph()
    for i in range(number):
        fields = tuple(Field(f"c{n}", BIGINT) for n, edge in enumerate(edges) if i in edge)
        graph.relations.append(Values(rows=((),), columns=fields))
        graph.offsets.append(len(graph.owners))
        graph.owners += [i] * len(fields)
    used = [0] * number
    for first, second in edges:
        sides = []
        for i in (first, second):
            sides.append(Column(index=graph.offsets[i] + used[i], name="c", type=BIGINT))
            used[i] += 1
        graph.expressions.append(Call(function="eq", arguments=tuple(sides), type=BOOLEAN))
    sizes = Sizes(
        graph,
        *graph.divided(graph.expressions),
        [random.choice([1, 10, 100, 1000, 10_000]) for _ in range(number)],
    )
    sizes._domains = {i: float(random.choice([2, 20, 200])) for i in range(len(edges))}
    sizes._base_rows = dict.fromkeys(range(number), 1000000.0)
    return sizes


def _cheapest(sizes: Sizes, neighbours: list[int], members: int) -> Joined:
    """The best of all orders without cross products, found by trying them."""
    known: dict[int, Joined | None] = {leaf.members: leaf for leaf in sizes.leaves}

    def of(members: int) -> Joined | None:
        if members not in known:
            best: Joined | None = None
            first = (members - 1) & members
            while first:
                left, right = of(first), of(members ^ first)
                near = any(neighbours[i] & (members ^ first) for i in bits(first))
                if left is not None and right is not None and near:
                    joined = sizes.join(left, right)
                    if best is None or joined.is_better_than(best):
                        best = joined
                first = (first - 1) & members
            known[members] = best
        return known[members]

    found = of(members)
    assert found is not None
    return found


@pytest.mark.parametrize("shape", ["chain", "star", "tree", "cycle", "clique"])
@pytest.mark.parametrize("seed", range(4))
def test_the_exact_order_costs_as_little_as_any(shape: str, seed: int) -> None:
    random = Random(seed)
    sizes = _sizes(shape, 7, random)
    neighbours = sizes.neighbours()
    best = best_order(sizes, neighbours, 127)
    assert best is not None
    assert best.cost == pytest.approx(_cheapest(sizes, neighbours, 127).cost)
    greedy = greedy_order(sizes, neighbours, sizes.leaves)
    assert best.cost <= greedy.cost * (1 + 1e-9)


@pytest.mark.parametrize(
    ("shape", "pairs"), [("chain", 286), ("cycle", 726), ("star", 11_264), ("clique", 261_625)]
)
def test_each_pair_of_connected_sets_is_visited_once(shape: str, pairs: int) -> None:
    """The numbers are the formulas of Moerkotte and Neumann for twelve relations."""
    sizes = _sizes(shape, 12, Random(1))
    found = list(_pairs(sizes.neighbours(), 4095))
    assert len(found) == pairs
    assert len({frozenset(pair) for pair in found}) == pairs
    assert (best_order(sizes, sizes.neighbours(), 4095) is None) is (pairs > MOST_PAIRS)


def test_relations_without_a_condition_are_joined_last() -> None:
    sizes = _sizes("disconnected", 20, Random(3))
    neighbours = sizes.neighbours()
    parts = components(neighbours)
    assert len(parts) > 1
    assert greedy_order(sizes, neighbours, sizes.leaves).loose == len(parts) - 1


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def _registered(con: runnel.Connection, shape: str, number: int) -> str:
    made = case(shape, number, 0)
    for name, columns in made.tables.items():
        con.register(
            name, pa.table({key: pa.array(values, pa.int64()) for key, values in columns.items()})
        )
    return made.sql


@pytest.mark.parametrize("shape", ["chain", "tree", "star"])
def test_work_grows_with_the_number_of_tables(con: runnel.Connection, shape: str) -> None:
    """At most with its square: a join has the columns of all tables below it."""
    con._session.prepare(_registered(con, shape, 3), ())
    calls = []
    for number in (16, 64):
        sql = _registered(con, shape, number)
        calls.append(_calls(lambda sql=sql: con._session.prepare(sql, ())))
    assert calls[1] < 10 * calls[0]


def test_an_order_that_was_found_is_not_changed_again(con: runnel.Connection) -> None:
    from typing import Any

    for shape in SHAPES:
        plan: Any = con._session.prepare(_registered(con, shape, 20), ())
        assert order_joins(plan.logical) is plan.logical


def test_equalities_that_follow_from_others_connect_tables(con: runnel.Connection) -> None:
    """a = b and b = c: the two small tables are joined first, though no condition names both."""
    for name, size in {"a": 5, "b": 5000, "c": 5}.items():
        con.register(name, pa.table({"k": pa.array(range(size), pa.int64())}))
    sql = "SELECT COUNT(*) FROM a, b, c WHERE a.k = b.k AND b.k = c.k"
    lines = [line for (line,) in con.execute(f"EXPLAIN {sql}").fetchall()]
    logical = lines[: lines.index("")]
    scans = [line.split()[1] for line in logical if line.strip().startswith("Scan")]
    assert scans[0] == "b" or scans[-1] == "b"
    assert con.execute(sql).fetchall() == [(5,)]


def test_tables_of_unknown_size_are_connected(con: runnel.Connection) -> None:
    tables = ", ".join(f"GENERATE_SERIES(1, ?) AS t{i}(v)" for i in range(8))
    # Each table is joined with the one four places on, so the written order has cross products.
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    conditions = [f"t{a}.v = t{b}.v" for a, b in pairwise(order)]
    sql = f"SELECT COUNT(*) FROM {tables} WHERE {' AND '.join(conditions)}"
    plan = [line for (line,) in con.execute(f"EXPLAIN {sql}", [100] * 8).fetchall()]
    assert not any("Cross" in line for line in plan)
    assert con.execute(sql, [100] * 8).fetchall() == [(100,)]
