"""Chains of operators over few rows in memory, which run without a job, compared with the jobs of
the same statements. A statement with a timeout always runs as a job."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import runnel
from runnel.runtime.light_job import Jobs
from runnel.statements.queries import FEW_ROWS

STATEMENTS = [
    "SELECT k, SUM(v), COUNT(*) FROM t WHERE v > ? GROUP BY k",
    "SELECT k, SUM(v) AS s FROM t WHERE v > ? GROUP BY k HAVING SUM(v) > 100 ORDER BY s DESC, k",
    "SELECT v + k FROM t WHERE v < ? ORDER BY v LIMIT 7 OFFSET 2",
    "SELECT COUNT(*), MIN(v), MAX(name), AVG(v) FROM t WHERE v > ?",
    "SELECT COUNT(DISTINCT k), ARRAY_AGG(v ORDER BY v DESC) FROM t WHERE v > ?",
    "SELECT DISTINCT name FROM t WHERE v < ?",
    "SELECT name, COUNT(*) FROM t WHERE v < ? - 1000 GROUP BY name",
    "SELECT SUM(v) FROM t WHERE v < ? - 1000",
    "SELECT COUNT(*) FROM m WHERE this <> ?",
    "SELECT this % 3, SUM(this) FROM m WHERE __key <> ? GROUP BY this % 3",
]
JOBS = [
    "SELECT k, twice(v) FROM t WHERE v > ?",
    "SELECT REPEAT(name, 1000) FROM t WHERE v > ?",
    "SELECT RAND() FROM t WHERE v > ?",
    "SELECT a.k FROM t a JOIN t b ON a.v = b.v WHERE a.v > ?",
    "SELECT k, SUM(v) FROM large WHERE v > ? GROUP BY k",
]


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        rows = {
            "k": [None if i % 11 == 5 else i % 10 for i in range(300)],
            "v": list(range(300)),
            "name": [f"n{i % 7}" for i in range(300)],
        }
        table = pa.table(rows)
        chunks = [part for start in range(0, 300, 7) for part in table.slice(start, 7).to_batches()]
        connection.register("t", pa.Table.from_batches(chunks))
        count = FEW_ROWS + 1
        connection.register("large", pa.table({"k": [1] * count, "v": list(range(count))}))
        connection.execute("CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap")
        for low in (0, 40, 80):
            connection.execute(
                f"SINK INTO m SELECT v, v * 3 FROM t WHERE v >= {low} AND v < {low + 60}"
            )
        connection.execute("DELETE FROM m WHERE __key = 17")
        connection.create_function("twice", lambda v: 2 * v, ["BIGINT"], "BIGINT")
        yield connection


def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The DAGs of the jobs that are started from now on."""
    dags: list[object] = []
    start = Jobs.start

    def note(self: Jobs, dag: object, **options: object) -> object:
        dags.append(dag)
        return start(self, dag, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Jobs, "start", note)
    return dags


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_rows_are_those_of_a_job(
    connection: runnel.Connection, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dags = started(monkeypatch)
    rows = connection.execute(sql, (42,)).fetchall()
    assert not dags
    assert rows == connection.execute(sql, (42,), timeout=60).fetchall()
    assert len(dags) == 1


@pytest.mark.parametrize("sql", JOBS)
def test_work_that_may_take_long_is_a_job(
    connection: runnel.Connection, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dags = started(monkeypatch)
    connection.execute(sql, (42,)).fetchall()
    assert len(dags) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 / (v - ?) FROM t",
        "SELECT k, SUM(1 / (v - ?)) FROM t GROUP BY k",
    ],
)
def test_errors_are_those_of_a_job(connection: runnel.Connection, sql: str) -> None:
    with pytest.raises(runnel.Error) as direct:
        connection.execute(sql, (42,))
    with pytest.raises(runnel.Error) as job:
        connection.execute(sql, (42,), timeout=60).fetchall()
    assert str(direct.value) == str(job.value)
    assert direct.value.code == job.value.code


def test_the_accumulation_limit_holds(connection: runnel.Connection) -> None:
    connection.execute("SET max_processor_accumulated_records = 5")
    with pytest.raises(runnel.OperationalError, match="more than 5 rows"):
        connection.execute("SELECT k, COUNT(*) FROM t GROUP BY k")


def test_rows_are_fetched_in_parts(connection: runnel.Connection) -> None:
    cursor = connection.execute("SELECT v FROM t WHERE v >= ? ORDER BY v", (10,))
    assert cursor.rowcount == 290
    assert cursor.fetchone() == (10,)
    assert cursor.fetchmany(2) == [(11,), (12,)]
    assert cursor.fetch_arrow_table().num_rows == 287
    assert cursor.fetchone() is None


def test_a_job_is_asked_for_by_the_parallelism(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    dags = started(monkeypatch)
    connection.execute("SET query_parallelism = 3")
    connection.execute("SELECT COUNT(*) FROM t").fetchall()
    assert len(dags) == 1
