"""Aggregations that a join wants few groups of read only the rows of these."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from runnel.planner.rules.group_reduction import reduce_groups
from runnel.relation.nodes import Aggregate, Join, JoinKind, Relation, walk

MANY, FEW = 2000, 20


@pytest.fixture
def tables() -> Iterator[runnel.Connection]:
    """A large table, a small one; keys that match nothing, and NULL keys, in both."""
    source = random.Random(3)
    with runnel.connect(fragment_rows=0) as connection:
        keys = [source.choice([None, *range(100)]) for _ in range(MANY)]
        connection.register(
            "large",
            pa.table({"k": keys, "v": [source.choice([None, *range(50)]) for _ in range(MANY)]}),
        )
        few = [source.choice([None, *range(90, 110)]) for _ in range(FEW)]
        connection.register(
            "small", pa.table({"k": few, "w": [source.randrange(50) for _ in range(FEW)]})
        )
        yield connection


def logical(connection: runnel.Connection, sql: str) -> Relation:
    relation = connection._session.prepare(sql, ()).logical  # type: ignore[attr-defined]
    assert isinstance(relation, Relation)
    return relation


def reduced_groups(relation: Relation) -> int:
    return sum(
        isinstance(node, Aggregate)
        and isinstance(node.input, Join)
        and node.input.kind is JoinKind.SEMI
        for node in walk(reduce_groups(relation))
    )


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT k, w FROM small s WHERE w < (SELECT AVG(v) FROM large l WHERE l.k = s.k)", 1),
        ("SELECT k, (SELECT MAX(v) FROM large l WHERE l.k = s.k) FROM small s", 1),
        (
            (
                "SELECT s.k, n FROM small s JOIN (SELECT k, COUNT(*) AS n FROM large "
                "GROUP BY k) g ON s.k = g.k"
            ),
            1,
        ),
        (
            (
                "SELECT s.k, n FROM small s LEFT JOIN (SELECT k, COUNT(*) AS n FROM large "
                "GROUP BY k) g ON s.k = g.k"
            ),
            1,
        ),
        (
            (
                "SELECT l.k, n FROM large l JOIN (SELECT k, COUNT(*) AS n FROM large "
                "GROUP BY k) g ON l.k = g.k"
            ),
            0,
        ),
        (
            (
                "SELECT n FROM (SELECT k FROM small LIMIT 3) s "
                "JOIN (SELECT k, COUNT(*) n FROM large GROUP BY k) g ON s.k = g.k"
            ),
            0,
        ),
    ],
)
def test_the_rows_stay_the_same(tables: runnel.Connection, sql: str, count: int) -> None:
    assert reduced_groups(logical(tables, sql)) == count
    if "LIMIT" in sql:
        return
    pushed = tables.execute(sql).fetchall()
    tables.execute("SET pushdown = off")
    own = tables.execute(sql).fetchall()
    assert len(own) > 0
    assert sorted(map(repr, pushed)) == sorted(map(repr, own))


def test_rules_and_reduction_come_to_rest(tables: runnel.Connection) -> None:
    relation = logical(
        tables, "SELECT k FROM small s WHERE w < (SELECT AVG(v) FROM large l WHERE l.k = s.k)"
    )
    assert sum(isinstance(node, Join) for node in walk(reduce_groups(relation))) == 2
