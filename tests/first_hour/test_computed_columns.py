"""Computed columns of mappings: in durable directories, in streams, in joins by look-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import runnel

SALES = """
CREATE MAPPING sales (ms BIGINT, cost AS price * 2, price BIGINT, ts AS EPOCH_MS(ms),
    WATERMARK FOR ts AS ts) TYPE File OPTIONS ('path' = '{0}/*.json', 'format' = 'json'{1})"""
FOLLOW = ", 'follow' = 'true', 'pollMillis' = '10', 'idleTimeoutMillis' = '0'"
PER_MINUTE = """
SELECT window_end, COUNT(*), SUM(cost)
FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_end"""


def write(path: Path, minutes: range) -> None:
    rows = ({"ms": minute * 60_000 + 1, "price": minute} for minute in minutes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_saved_mapping_has_them(tmp_path: Path) -> None:
    write(tmp_path / "a.json", range(3))
    with runnel.connect(tmp_path / "directory") as connection:
        connection.execute(SALES.format(tmp_path, ""))
        connection.execute("CREATE VIEW costs AS SELECT cost, ts FROM sales")
        before = connection.execute("SELECT * FROM sales").fetchall()
        text = connection.execute("SHOW CREATE TABLE sales").fetchall()[0][0]
    with runnel.connect(tmp_path / "directory") as connection:
        assert connection.execute("SELECT * FROM sales").fetchall() == before
        assert connection.execute("SELECT SUM(cost) FROM costs").fetchall() == [(6,)]
        connection.execute(text)
        assert connection.execute("SHOW CREATE TABLE sales").fetchall()[0][0] == text
        columns = connection.execute("SHOW COLUMNS FROM sales").fetchall()
        assert [row[0] for row in columns] == ["ms", "price", "cost", "ts"]


def test_a_changed_expression_is_another_definition(connection: runnel.Connection) -> None:
    connection.execute("CREATE MAPPING m (__key BIGINT, v BIGINT, w AS v * 10) TYPE IMap")
    connection.execute("INSERT INTO m VALUES (1, 2)")
    query = "SELECT w FROM m"
    assert connection.execute(query).fetchall() == [(20,)]
    connection.execute("CREATE OR REPLACE MAPPING m (__key BIGINT, v BIGINT, w AS v + 1) TYPE IMap")
    assert connection.execute(query).fetchall() == [(3,)]


def test_each_file_has_its_own_watermark(connection: runnel.Connection, tmp_path: Path) -> None:
    """The watermark is generated from the computed time in the scan: of two files that are read
    side by side at lag 0 no row is late."""
    for number in range(2):
        write(tmp_path / f"{number}.json", range(200))
    connection.execute(SALES.format(tmp_path, FOLLOW))
    rows = connection.execute(PER_MINUTE + " LIMIT 150").fetchall()
    assert [row[1:] for row in sorted(rows)] == [(2, 4 * minute) for minute in range(150)]


@pytest.mark.parametrize(("kind", "unmatched"), [("JOIN", []), ("LEFT JOIN", [(3, None, None)])])
def test_a_stream_looks_them_up(
    connection: runnel.Connection,
    kind: str,
    unmatched: list[tuple[int, None, None]],
) -> None:
    connection.execute(
        "CREATE MAPPING m (__key BIGINT, v BIGINT, w AS COALESCE(v, 0) * 10) TYPE IMap"
    )
    connection.execute("INSERT INTO m VALUES (1, 5), (2, NULL)")
    stream = connection.register_stream("s", {"k": "BIGINT"})
    query = f"SELECT s.k, m.w, m.v FROM s {kind} m ON s.k = m.__key AND m.w >= 0"
    plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {query}").fetchall())
    assert "look-up in m" in plan
    cursor = connection.execute(query)
    stream.write([{"k": 1}, {"k": 3}, {"k": 2}])
    expected = [(1, 50, 5), *unmatched, (2, 0, None)]
    assert cursor.fetchmany(len(expected)) == expected
    connection.execute("SINK INTO m VALUES (1, 7)")
    stream.write([{"k": 1}])
    assert cursor.fetchone() == (1, 70, 7)
    cursor.close()
