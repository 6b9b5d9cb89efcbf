"""EXPLAIN ANALYZE: what it runs, and what it says of it."""

from __future__ import annotations

import json
import re

import pytest

import runnel
from runnel import Connection

MAP = "TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"


@pytest.fixture
def connection() -> Connection:
    connection = runnel.connect(query_parallelism=2)
    connection.execute(f"CREATE MAPPING m (__key BIGINT, name VARCHAR) {MAP}")
    connection.execute("INSERT INTO m SELECT v, 'n' || v % 10 FROM TABLE(GENERATE_SERIES(1, 1000))")
    return connection


def lines(connection: Connection, sql: str, *args: object) -> list[str]:
    return [row[0] for row in connection.execute(sql, args).fetchall()]


def test_each_vertex_has_a_line_with_its_rows(connection: Connection) -> None:
    shown = lines(
        connection,
        "EXPLAIN ANALYZE SELECT name, count(*) FROM m WHERE __key > ? GROUP BY name",
        500,
    )
    heading, rule, *rest, total = shown
    assert heading.split("  ")[0] == "vertex"
    assert set(rule) == {"-"} and len(rule) == len(heading)
    assert re.split(r"\s{2,}", rest[0])[::2][:2] == ["scan m", "500"], "a source has no rows in"
    assert re.fullmatch(r"10 rows in [\d.]+ (µs|ms|s)", total)
    assert all(len(line) == len(heading) for line in rest), "numbers are aligned"


def test_rows_batches_and_bytes_are_those_of_the_run(connection: Connection) -> None:
    text = "\n".join(
        lines(connection, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT __key FROM m WHERE name = 'n3'")
    )
    told = json.loads(text)
    assert told["rows"] == 100
    assert told["nanoseconds"] > 0
    scan = next(item for item in told["vertices"] if item["vertex"] == "scan m")
    assert scan["rows_out"] == 100
    assert scan["rows_in"] == 0
    assert scan["bytes_out"] >= 100 * 8
    assert scan["batches_out"] >= 1
    assert scan["nanoseconds"] > 0


def test_a_join_shows_both_sides(connection: Connection) -> None:
    connection.execute("SET query_parallelism = 1")
    join = "SELECT count(*) FROM m a JOIN m b ON a.__key = b.__key + 1"
    told = json.loads("\n".join(lines(connection, f"EXPLAIN (ANALYZE, FORMAT JSON) {join}")))
    by_vertex = {item["vertex"]: item for item in told["vertices"]}
    assert by_vertex["join"]["rows_in"] == 2000
    assert by_vertex["join"]["rows_out"] == 999
    assert told["rows"] == 1


def test_what_writes_has_written(connection: Connection) -> None:
    told = lines(
        connection,
        "EXPLAIN ANALYZE INSERT INTO m SELECT v + 5000, 'new' FROM TABLE(GENERATE_SERIES(1, 7))",
    )
    assert told[-1].startswith("7 rows written in ")
    assert connection.execute("SELECT count(*) FROM m WHERE name = 'new'").fetchone() == (7,)


def test_a_failure_is_that_of_the_statement_and_writes_nothing(connection: Connection) -> None:
    with pytest.raises(runnel.DataError, match="division by zero"):
        connection.execute(
            "EXPLAIN ANALYZE INSERT INTO m SELECT v + 5000, 'new' || 1 / (v - 3) "
            "FROM TABLE(GENERATE_SERIES(1, 7))"
        )
    assert connection.execute("SELECT count(*) FROM m").fetchone() == (1000,)
    assert connection.jobs() == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM m WHERE __key = 5", "1 row in "),
        ("SELECT * FROM m WHERE __key = -5", "0 rows in "),
        ("DELETE FROM m WHERE __key = 5", "1 row written in "),
        ("UPDATE m SET name = 'x' WHERE __key = 6", "1 row written in "),
        ("DELETE FROM m", "1,000 rows written in "),
    ],
)
def test_what_needs_no_job_is_one_line(connection: Connection, sql: str, said: str) -> None:
    (line,) = lines(connection, f"EXPLAIN ANALYZE {sql}")
    assert line.startswith(said)
    assert line.endswith(", without a job")


def test_a_stream_needs_a_limit(connection: Connection) -> None:
    with pytest.raises(runnel.NotSupportedError, match="needs a query that ends"):
        connection.execute("EXPLAIN ANALYZE SELECT * FROM TABLE(GENERATE_STREAM(10))")
    told = lines(connection, "EXPLAIN ANALYZE SELECT v FROM TABLE(GENERATE_STREAM(10000)) LIMIT 5")
    assert told[-1].startswith("5 rows in ")
    assert connection.jobs() == []


def test_bytes_are_not_counted_for_others(connection: Connection) -> None:
    cursor = connection.execute("SELECT v FROM TABLE(GENERATE_STREAM(1000))")
    cursor.fetchmany(3)
    (job,) = connection.jobs()
    assert sum(item.rows_out for item in job.metrics().values()) >= 1
    assert sum(item.bytes_out for item in job.metrics().values()) == 0
    cursor.close()


def test_a_time_out_ends_it(connection: Connection) -> None:
    with pytest.raises(runnel.OperationalError):
        connection.execute(
            "EXPLAIN ANALYZE SELECT count(*) FROM TABLE(GENERATE_SERIES(1, 100000000)) a "
            "JOIN m ON m.__key < a.v",
            timeout=0.2,
        )
    assert connection.jobs() == []
