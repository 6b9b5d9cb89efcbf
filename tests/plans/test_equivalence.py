"""The rules keep the result: every query is run with all rules, with the necessary ones alone, and
on several processors, and all agree with DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel.planner import planner
from runnel.planner.rules import NECESSARY_RULES, apply
from runnel.relation.nodes import Relation

TRADES = {
    "id": pa.array(range(40), pa.int64()),
    "ticker": pa.array([None if i % 11 == 0 else "ABCDEFG"[i % 7] for i in range(40)], pa.string()),
    "price": pa.array(
        [None if i % 13 == 5 else (i * 37 % 23) / 2 for i in range(40)], pa.float64()
    ),
    "quantity": pa.array([None if i % 9 == 4 else i * 17 % 8 for i in range(40)], pa.int32()),
}
COMPANIES = {
    "code": pa.array(["A", "B", "C", "D", "X", "Y", None], pa.string()),
    "name": pa.array(["Alpha", "Beta", "Gamma", "Delta", "Xi", None, "Nobody"], pa.string()),
    "country": pa.array(["NL", "DE", "NL", None, "FR", "NL", "DE"], pa.string()),
    "size": pa.array([3, 5, None, 1, 0, 7, 2], pa.int32()),
}

QUERIES = (
    """
SELECT id, ROW_NUMBER() OVER (PARTITION BY ticker ORDER BY price, id) FROM trades
SELECT t, n FROM (SELECT ticker AS t, id, COUNT(*) OVER (PARTITION BY ticker) AS n FROM trades) x
    WHERE t > 'B' AND n > 5
SELECT n FROM (SELECT quantity AS q, SUM(price) OVER (PARTITION BY ticker, quantity) AS n
    FROM trades) x WHERE q = 1
SELECT q FROM (SELECT quantity AS q, COUNT(*) OVER (PARTITION BY quantity) AS n FROM trades) x
    WHERE 20 / (q + 1) > n
SELECT COUNT(*) FROM (SELECT SUM(price) OVER (ORDER BY id) AS s FROM trades) x
SELECT id FROM trades QUALIFY RANK() OVER (PARTITION BY ticker ORDER BY price DESC) <= 2
SELECT ticker, SUM(SUM(id)) OVER (ORDER BY ticker) FROM trades GROUP BY ticker
    QUALIFY RANK() OVER (ORDER BY ticker) < 5
SELECT DISTINCT ON (ticker) ticker, id FROM trades ORDER BY ticker, price, id
SELECT c.name FROM (SELECT ticker, LAG(id) OVER (ORDER BY id) AS p FROM trades) x
    JOIN companies c ON ticker = code WHERE p > 3
SELECT ticker, quantity, COUNT(*), GROUPING(ticker, quantity) FROM trades
    GROUP BY CUBE (ticker, quantity)
SELECT ticker, COUNT(*) FROM trades GROUP BY ROLLUP (ticker)
    HAVING GROUPING(ticker) = 0 AND ticker > 'B'
SELECT ticker, SUM(price + 1), COUNT(DISTINCT quantity) FROM trades WHERE id < 0
    GROUP BY GROUPING SETS ((ticker), (quantity))
SELECT t, n FROM (SELECT ticker AS t, COUNT(*) AS n, GROUPING(ticker) AS g FROM trades
    GROUP BY ROLLUP (ticker)) x WHERE g = 1
SELECT country, name, SUM(size) FROM companies GROUP BY GROUPING SETS ((country), (name), ())
    HAVING SUM(size) > 3
SELECT ticker FROM trades WHERE quantity > 3
SELECT id, price * quantity FROM trades WHERE ticker = 'A' AND price * quantity > 10
SELECT COUNT(*) FROM trades
SELECT COUNT(*) FROM trades WHERE quantity IS NULL
SELECT t FROM (SELECT ticker AS t, price AS p FROM trades) x WHERE p > 5 AND t IS NOT NULL
SELECT id FROM trades WHERE quantity <> 0 AND 20 / quantity > 5
SELECT id FROM trades WHERE 1 = 1 AND (quantity > 2 OR quantity IS NULL)
SELECT id FROM trades WHERE NOT (quantity > 2)
SELECT id FROM trades WHERE ticker = 'A' OR quantity = 2 OR ticker = 'B' OR ticker IN ('C',
    NULL) OR quantity IS NULL
SELECT id, NOT (ticker = 'A' OR ticker = NULL OR ticker = 'B') AS x FROM trades
SELECT id FROM trades WHERE NOT (NOT (quantity IS NULL)) OR NOT (price IS NOT NULL)
SELECT id FROM trades WHERE 1 = 0
SELECT COUNT(*) FROM trades WHERE 1 = 0
SELECT ticker, COUNT(*) FROM trades WHERE 1 = 0 GROUP BY ticker
SELECT id FROM trades WHERE NULL
SELECT t.id, c.name FROM trades t JOIN companies c ON t.ticker = c.code
SELECT t.id, c.name FROM companies c JOIN trades t ON t.ticker = c.code
    WHERE c.country = 'NL' AND t.quantity > 1
SELECT t.id, c.name FROM trades t, companies c WHERE t.ticker = c.code AND t.quantity > c.size
SELECT t.id, c.name FROM trades t, companies c WHERE t.quantity > c.size
SELECT t.id, c.name FROM trades t CROSS JOIN companies c WHERE c.size > 2
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code AND c.size > 2
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code AND t.quantity > 3
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code WHERE c.country = 'NL'
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code WHERE c.country IS NULL
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code
    WHERE c.country IS NOT NULL OR t.id < 5
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code
    WHERE COALESCE(c.size, 9) > 4
SELECT t.id, c.name FROM companies c LEFT JOIN trades t ON t.ticker = c.code
SELECT t.id, c.name FROM trades t RIGHT JOIN companies c ON t.ticker = c.code
SELECT t.id, c.name FROM trades t RIGHT JOIN companies c ON t.ticker = c.code AND t.quantity > 2
    AND c.size > 1
SELECT t.id, c.name FROM trades t RIGHT JOIN companies c ON t.ticker = c.code WHERE t.price > 3
SELECT t.id, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.code
SELECT t.id, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.code WHERE t.quantity > 1
SELECT t.id, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.code WHERE c.size > 1
SELECT t.id, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.code
    WHERE c.size > 1 AND t.quantity > 1
SELECT t.id, c.name FROM trades t FULL JOIN companies c ON t.ticker = c.code WHERE t.id IS NULL
SELECT a.id, b.id FROM trades a JOIN trades b USING (ticker)
    WHERE a.id < b.id AND a.quantity = b.quantity
SELECT a.id, b.code, c.code FROM trades a LEFT JOIN companies b ON a.ticker = b.code
    LEFT JOIN companies c ON b.size = c.size
SELECT a.id, b.code, c.code FROM trades a LEFT JOIN companies b ON a.ticker = b.code
    JOIN companies c ON b.size = c.size
SELECT c.name, COUNT(*), SUM(t.quantity) FROM trades t JOIN companies c ON t.ticker = c.code
    GROUP BY c.name
SELECT id FROM trades WHERE ticker IN (SELECT code FROM companies WHERE country = 'NL')
SELECT id FROM trades WHERE ticker NOT IN (SELECT code FROM companies)
SELECT id FROM trades WHERE ticker NOT IN (SELECT code FROM companies WHERE code IS NOT NULL)
SELECT id FROM trades WHERE ticker NOT IN (SELECT code FROM companies WHERE 1 = 0)
SELECT id, ticker IN (SELECT code FROM companies) AS known FROM trades
SELECT id, ticker IN (SELECT code FROM companies WHERE code IS NOT NULL) AS known FROM trades
SELECT id FROM trades WHERE ticker IN (SELECT code FROM companies) OR quantity > 5
SELECT id FROM trades WHERE (ticker IN (SELECT code FROM companies)) IS NULL
SELECT id FROM trades WHERE (ticker, quantity) IN (SELECT code, size FROM companies)
SELECT id FROM trades t WHERE EXISTS (SELECT 1 FROM companies c
    WHERE c.code = t.ticker AND c.size > t.quantity)
SELECT id FROM trades t WHERE NOT EXISTS (SELECT 1 FROM companies c WHERE c.code = t.ticker)
SELECT id FROM trades t WHERE NOT EXISTS (SELECT 1 FROM companies c
    WHERE c.code = t.ticker AND t.quantity > 3)
SELECT id, EXISTS (SELECT 1 FROM companies c WHERE c.code = t.ticker) AS found FROM trades t
SELECT id FROM trades WHERE EXISTS (SELECT 1 FROM companies WHERE country = 'NL')
SELECT id FROM trades WHERE NOT EXISTS (SELECT 1 FROM companies WHERE country = 'NL')
SELECT id FROM trades WHERE EXISTS (SELECT 1 FROM companies WHERE country = 'ZZ')
SELECT id FROM trades t WHERE EXISTS (SELECT DISTINCT name FROM companies c WHERE c.code = t.ticker
    ORDER BY name)
SELECT id FROM trades t WHERE EXISTS (SELECT 1 FROM companies c JOIN companies d ON c.size < d.size
    WHERE c.code = t.ticker)
SELECT id FROM trades t WHERE EXISTS (SELECT 1 FROM companies c, companies d
    WHERE c.code = t.ticker AND d.size = t.quantity)
SELECT id FROM trades t WHERE ticker IN (SELECT code FROM companies c WHERE c.size > t.quantity)
SELECT id FROM trades t WHERE ticker NOT IN (SELECT code FROM companies c WHERE c.size > t.quantity)
SELECT id FROM trades t WHERE EXISTS (SELECT 1 FROM companies
    WHERE code = ticker AND size IN (SELECT quantity FROM trades))
SELECT id FROM trades WHERE price > (SELECT AVG(price) FROM trades)
SELECT id, (SELECT MAX(size) FROM companies) AS m FROM trades
    WHERE quantity > (SELECT MIN(size) FROM companies)
SELECT id FROM trades WHERE quantity = (SELECT size FROM companies WHERE code = 'A')
SELECT id FROM trades WHERE quantity = (SELECT size FROM companies WHERE code = 'ZZ')
SELECT ticker, COUNT(*) FROM trades GROUP BY ticker
    HAVING COUNT(*) > (SELECT COUNT(*) / 2 FROM companies WHERE size > 1)
SELECT ticker, COUNT(*) FROM trades GROUP BY ticker HAVING ticker IN (SELECT code FROM companies)
SELECT ticker, COUNT(*) AS n FROM trades WHERE quantity > 1 GROUP BY ticker
    HAVING COUNT(*) > 1 AND ticker > 'A'
SELECT ticker FROM (SELECT ticker, COUNT(*) AS n, MAX(price) AS m FROM trades GROUP BY ticker) x
    WHERE ticker <> 'B' AND m > 3
SELECT COUNT(DISTINCT ticker), SUM(quantity) FILTER (WHERE price > 5) FROM trades
SELECT ticker, COUNT(DISTINCT quantity), MIN(price) FROM trades GROUP BY ticker
SELECT DISTINCT ticker, quantity FROM trades
SELECT DISTINCT country FROM companies WHERE size > 0
SELECT ticker FROM (SELECT DISTINCT ticker, quantity FROM trades) x WHERE quantity > 2
SELECT ticker FROM trades UNION ALL SELECT code FROM companies
SELECT t FROM (SELECT ticker AS t, id AS i FROM trades UNION ALL SELECT code, size
    FROM companies) x WHERE i > 3
SELECT ticker FROM trades UNION SELECT code FROM companies
SELECT ticker FROM trades INTERSECT SELECT code FROM companies
SELECT ticker FROM trades EXCEPT SELECT code FROM companies
SELECT t FROM (SELECT ticker AS t FROM trades EXCEPT ALL SELECT code FROM companies) x WHERE t > 'A'
SELECT t FROM (SELECT ticker AS t FROM trades INTERSECT ALL SELECT code FROM companies) x
    WHERE t > 'A'
WITH big AS (SELECT id, quantity AS q FROM trades WHERE quantity > 3) SELECT a.id, b.id FROM big a
    JOIN big b ON a.q = b.q
SELECT CASE WHEN quantity = 0 THEN 0 ELSE 100 / quantity END AS q FROM trades
SELECT u FROM (SELECT UPPER(ticker) || 'x' AS u FROM trades) x WHERE u LIKE 'A%'
SELECT COUNT(*) FROM (SELECT id FROM trades LIMIT 7) x
SELECT COUNT(*) FROM (SELECT id FROM trades UNION ALL SELECT size FROM companies LIMIT 9) x
SELECT COUNT(*) FROM (SELECT t.id FROM trades t LEFT JOIN companies c ON t.ticker = c.code
    LIMIT 3) x
SELECT COUNT(*) FROM trades t JOIN companies c ON t.ticker = c.code
SELECT COUNT(*) FROM trades t LEFT JOIN companies c ON t.ticker = c.code AND c.size > t.quantity
SELECT COUNT(*) FROM trades t RIGHT JOIN companies c ON t.ticker = c.code
SELECT COUNT(*) FROM trades t FULL JOIN companies c ON t.ticker = c.code
SELECT COUNT(*) FROM trades t FULL JOIN companies c ON t.ticker || 'x' = c.code || 'x'
SELECT COUNT(*) FROM trades t CROSS JOIN companies c
SELECT COUNT(*) FROM trades WHERE ticker IN (SELECT code FROM companies)
SELECT COUNT(*) FROM trades WHERE ticker NOT IN (SELECT code FROM companies WHERE size > 2)
SELECT COUNT(*) FROM trades WHERE ticker IN (SELECT code FROM companies) OR 1 = 1
SELECT c.name, t.id, c.size, t.ticker, c.name FROM trades t JOIN companies c ON t.ticker = c.code
SELECT c.name || 'x', t.id + c.size FROM trades t LEFT JOIN companies c ON t.ticker = c.code
    WHERE t.id > 7
SELECT p, i FROM (SELECT id AS i, price AS p, ticker AS t FROM trades) x
    JOIN companies c ON i = c.size
SELECT t.price, t.id FROM (SELECT id, price FROM trades) t
    JOIN (SELECT size FROM companies) c ON t.id = c.size
SELECT 1 FROM trades t JOIN companies c ON t.ticker = c.code
SELECT 1 + 1, 'a' || 'b'
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (NULL, 'c')) AS v(x, y) WHERE x > 1 OR y = 'c'
SELECT COUNT(*) FROM (VALUES (1), (2), (3)) AS v(x)
""".strip()
    .replace("\n    ", " ")
    .split("\n")
)

ORDERED = (
    """
SELECT id, price FROM trades ORDER BY price DESC, id
SELECT id FROM trades ORDER BY price, id LIMIT 5
SELECT id FROM trades ORDER BY price DESC, id LIMIT 5 OFFSET 3
SELECT id FROM trades ORDER BY id OFFSET 35
SELECT ticker, COUNT(*) AS n FROM trades GROUP BY ticker ORDER BY n DESC, ticker LIMIT 3
SELECT id FROM trades WHERE quantity > 3 ORDER BY ticker NULLS LAST, id
SELECT t.id, c.name FROM trades t LEFT JOIN companies c ON t.ticker = c.code ORDER BY t.id LIMIT 10
SELECT x FROM (SELECT id AS x FROM trades ORDER BY price, id LIMIT 9) y ORDER BY x
""".strip()
    .replace("\n    ", " ")
    .split("\n")
)


@pytest.fixture(scope="module")
def cursor() -> Iterator[runnel.Cursor]:
    with runnel.connect() as connection:
        for name, columns in (("trades", TRADES), ("companies", COMPANIES)):
            connection.register(name, in_pieces(columns))
        yield connection.cursor()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET integer_division = true")
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        connection.register("trades", in_pieces(TRADES))
        connection.register("companies", in_pieces(COMPANIES))
        yield connection


def in_pieces(columns: dict[str, pa.Array]) -> pa.Table:
    """A table of several chunks, so that several processors have something to read."""
    table = pa.table(list(columns.values()), names=list(columns))
    return pa.concat_tables([table.slice(start, 7) for start in range(0, table.num_rows, 7)])


def necessary_only(relation: Relation, check: Callable[[], None]) -> Relation:
    return apply(relation, NECESSARY_RULES, check)


def run(cursor: runnel.Cursor, sql: str, parallelism: int = 1) -> list[tuple[Any, ...]]:
    cursor.execute(f"SET query_parallelism = {parallelism}")
    return [tuple(row) for row in cursor.execute(sql).fetchall()]


def without_cache(sql: str, variant: str) -> str:
    """The same query with a text of its own, so that no plan made with other rules is used."""
    return f"{sql} -- {variant}"


@pytest.mark.parametrize("sql", QUERIES)
def test_the_rules_keep_the_rows(
    cursor: runnel.Cursor, oracle: Any, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    expected = Counter(oracle.execute(sql).fetchall())
    assert Counter(run(cursor, sql)) == expected
    assert Counter(run(cursor, sql, parallelism=3)) == expected
    monkeypatch.setattr(planner, "apply", necessary_only)
    assert Counter(run(cursor, without_cache(sql, "necessary"))) == expected


@pytest.mark.parametrize("sql", ORDERED)
def test_the_rules_keep_the_order(
    cursor: runnel.Cursor, oracle: Any, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    expected = oracle.execute(sql).fetchall()
    assert run(cursor, sql) == expected
    assert run(cursor, sql, parallelism=3) == expected
    monkeypatch.setattr(planner, "apply", necessary_only)
    assert run(cursor, without_cache(sql, "necessary")) == expected


def test_a_guarded_expression_does_not_fail_because_of_a_rule(cursor: runnel.Cursor) -> None:
    joined = (
        "SELECT t.id FROM trades t JOIN (SELECT id FROM trades WHERE quantity > 0) p ON t.id = p.id"
    )
    assert len(run(cursor, f"{joined} WHERE 10 / t.quantity >= 1")) == len(run(cursor, joined))
    inside = (
        "SELECT id FROM trades WHERE id IN (SELECT id FROM trades "
        "WHERE quantity > 0) AND 10 / quantity >= 1"
    )
    assert len(run(cursor, inside)) == len(run(cursor, joined))


def test_a_second_row_of_a_scalar_subquery_is_an_error(cursor: runnel.Cursor) -> None:
    with pytest.raises(runnel.DataError):
        run(cursor, "SELECT id FROM trades WHERE quantity = (SELECT size FROM companies)")
