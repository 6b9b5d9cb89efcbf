"""The names of columns that a query gives no name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel.storage.durable_files import sealed

NAMES: list[tuple[str, list[str]]] = [
    ("SELECT count(*), SUM( x ),1+1 FROM t", ["count(*)", "SUM( x )", "1+1"]),
    (
        "SELECT x  +\n\t1 /* one */ -- more\n, 'a  b', NULL, true FROM t",
        ["x + 1", "'a  b'", "NULL", "true"],
    ),
    (
        "SELECT x, t.x, (x), ((t.x)), -x, (x + 1), x AS y, x z FROM t",
        ["x", "x", "x", "x", "-x", "(x + 1)", "y", "z"],
    ),
    (
        "SELECT ?, ? + 1, x::BIGINT, CAST(x AS BIGINT) FROM t",
        ["?", "? + 1", "x::BIGINT", "CAST(x AS BIGINT)"],
    ),
    ("SELECT *, x + 1 FROM t", ["x", "s", "x + 1"]),
    ("SELECT * EXCLUDE (s), x + 1, * REPLACE (x + 2 AS x) FROM t", ["x", "x + 1", "x", "s"]),
    ("SELECT 1, 1", ["1", "1"]),
    (
        "SELECT (SELECT max(x) FROM t), EXISTS (SELECT 1), 2 IN (SELECT x FROM t)",
        ["(SELECT max(x) FROM t)", "EXISTS (SELECT 1)", "2 IN (SELECT x FROM t)"],
    ),
    (
        "SELECT x IS DISTINCT FROM 1, x IS NOT DISTINCT FROM 1 FROM t",
        ["x IS DISTINCT FROM 1", "x IS NOT DISTINCT FROM 1"],
    ),
    (
        "SELECT CASE WHEN x = 1 THEN 'a' END, EXTRACT(year FROM DATE '2020-01-01') FROM t",
        ["CASE WHEN x = 1 THEN 'a' END", "EXTRACT(year FROM DATE '2020-01-01')"],
    ),
    ("SELECT DISTINCT x + 1 FROM t", ["x + 1"]),
    ("SELECT ALL x + 1 FROM t", ["x + 1"]),
    ("SELECT DISTINCT ON (x, s) x + 1, x FROM t ORDER BY x, s", ["x + 1", "x"]),
    ("SELECT 1 + 1 WHERE TRUE", ["1 + 1"]),
    ("SELECT 1 + 1 LIMIT 1", ["1 + 1"]),
    ("SELECT 1 + 1 UNION ALL SELECT 2", ["1 + 1"]),
    (
        "SELECT count(*) OVER w, row_number() OVER (ORDER BY x) FROM t WINDOW w AS (ORDER BY x)",
        ["count(*) OVER w", "row_number() OVER (ORDER BY x)"],
    ),
    (
        "SELECT late + 1, options + late FROM (SELECT x AS late, x AS options FROM t)",
        ["late + 1", "options + late"],
    ),
    ("WITH a AS (SELECT count(*) FROM t) SELECT * FROM a", ["count(*)"]),
    ('SELECT "count(*)" + 1 FROM (SELECT count(*) FROM t)', ['"count(*)" + 1']),
    ("VALUES (1, 'a')", ["col0", "col1"]),
    ("SELECT col1 FROM (VALUES (1, 'a'))", ["col1"]),
    (
        "SELECT current_date, [1, 2], [1, 2][1], ROW(1, 2)",
        ["current_date", "[1, 2]", "[1, 2][1]", "ROW(1, 2)"],
    ),
    (
        'SELECT x + 1, count(*) FROM t GROUP BY ALL ORDER BY "count(*)", "x + 1"',
        ["x + 1", "count(*)"],
    ),
    ("SELECT /*+ x */ x + 1 FROM t", ["x + 1"]),
    ("SELECT E'a\\n', X'ff', 1e0+2", ["E'a\\n'", "X'ff'", "1e0+2"]),
]


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute("CREATE VIEW t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (x, s)")
        yield connection


@pytest.mark.parametrize(("sql", "names"), NAMES, ids=[sql for sql, _ in NAMES])
def test_names(connection: runnel.Connection, sql: str, names: list[str]) -> None:
    cursor = connection.execute(sql, (1,) * sql.count("?"))
    assert [item[0] for item in cursor.description or ()] == names
    assert cursor.fetch_arrow_table().column_names == names


def test_stored_names_are_found(connection: runnel.Connection) -> None:
    """Queries that are stored in directories may have them."""
    for sql in (
        'SELECT "EXPR$0" + 1 FROM (SELECT count(*) FROM t)',
        'SELECT q."expr$0" + 1 FROM (SELECT count(*) FROM t) q',
        'SELECT count(*) + 1 FROM t ORDER BY "EXPR$0"',
        'SELECT * EXCLUDE ("EXPR$1") FROM (SELECT 3, count(*) FROM t)',
        'SELECT "EXPR$0" FROM (VALUES (3))',
    ):
        assert connection.execute(sql).fetchall() == [(3,)], sql
    with pytest.raises(runnel.ProgrammingError, match=r'"EXPR\$1" does not exist'):
        connection.execute('SELECT "EXPR$1" FROM (SELECT count(*), x FROM t GROUP BY x)')


def test_duplicates_in_a_view(connection: runnel.Connection) -> None:
    connection.execute("CREATE VIEW v AS SELECT 1, 1, count(*), 1 AS c, 1 FROM t")
    cursor = connection.execute("SELECT * FROM v")
    names = [item[0] for item in cursor.description or ()]
    assert names == ["1", "1_1", "count(*)", "c", "1_2"]
    shown = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'v'"
    )
    assert [name for (name,) in shown] == names
    connection.execute('CREATE VIEW w AS SELECT 1, 2 AS "1"')
    assert [item[0] for item in connection.execute("SELECT * FROM w").description or ()] == [
        "1_1",
        "1",
    ]
    with pytest.raises(runnel.ProgrammingError, match='two columns "x"'):
        connection.execute("CREATE VIEW z AS SELECT x, x FROM t")


def test_views_of_earlier_versions_number_their_columns(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        connection.execute("CREATE VIEW old AS SELECT 7, count(*) FROM (VALUES (1))")
        connection.execute('CREATE VIEW above AS SELECT "EXPR$1", 1 AS b FROM old')
    file = tmp_path / "catalog.json"
    content = json.loads(file.read_text())
    del content["checksum"]
    for view in content["views"]:
        assert view.pop("unnamed") == "text"
    file.write_text(sealed(content))
    with runnel.connect(tmp_path) as connection:
        for _ in range(2):
            cursor = connection.execute("SELECT * FROM old")
            assert [item[0] for item in cursor.description or ()] == ["EXPR$0", "EXPR$1"]
            cursor = connection.execute("SELECT * FROM above")
            assert [item[0] for item in cursor.description or ()] == ["EXPR$1", "b"]
            connection.execute("CREATE OR REPLACE VIEW other AS SELECT 1 + 1")
    with runnel.connect(tmp_path) as connection:
        cursor = connection.execute("SELECT * FROM old, other")
        names = [item[0] for item in cursor.description or ()]
        assert names == ["EXPR$0", "EXPR$1", "1 + 1"]
