"""information_schema.job_metrics: the metrics of the processors of jobs as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import JobStatus
from runnel.catalog import EventTime
from runnel.named_jobs.named_job import NamedJob
from runnel.runtime.latency import quantiles
from runnel.runtime.metrics import COUNTS, LATENCIES
from tests.serving.bounds.doors import doors
from tests.streams.scripted_table import HOLD, ScriptedTable
from tests.waiting import eventually

MAP = "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
TABLE = "information_schema.job_metrics"
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])
COUNTING = (
    "SINK INTO m SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10)) "
    "GROUP BY window_end"
)
PATIENCE = 20


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        yield connection


def values(connection: runnel.Connection, where: str = "TRUE") -> dict[tuple[Any, ...], int]:
    """The values by vertex, processor and name."""
    query = f"SELECT vertex, processor, name, value FROM {TABLE} WHERE {where}"
    found = connection.execute(query).fetchall()
    result = {row[:3]: row[3] for row in found}
    assert len(result) == len(found), "each metric of a processor comes once"
    return result


def bounded(connection: runnel.Connection, rows: int = 1000) -> NamedJob:
    connection.execute(
        "CREATE JOB j AS SINK INTO m SELECT v % 10, v "
        f"FROM TABLE(GENERATE_SERIES(1, {rows})) AS t(v)"
    )
    job = connection.job("j")
    job.join(PATIENCE)
    return job


def agrees(connection: runnel.Connection, job: NamedJob) -> None:
    """The table says what `metrics()` says, for processors and, as sums, for vertices."""
    table, metrics = values(connection, f"job = '{job.name}'"), job.metrics()
    assert metrics and {vertex for vertex, _, _ in table} == set(metrics)
    expected: dict[tuple[Any, ...], int | None] = {}
    for name, vertex in metrics.items():
        for item in vertex.processors:
            expected |= {(name, item.index, count): getattr(item, count) for count in COUNTS}
            expected[name, item.index, "watermark"] = item.watermark
            if item.latency is not None:
                shares = quantiles([item.latency], LATENCIES.values())
                expected |= {
                    (name, item.index, of): value
                    for of, value in zip(LATENCIES, shares, strict=True)
                }
        for count in COUNTS:
            total = sum(value for key, value in table.items() if key[::2] == (name, count))
            assert total == getattr(vertex, count)
    assert table == {key: value for key, value in expected.items() if value is not None}


def test_it_agrees_with_metrics_in_python(con: runnel.Connection) -> None:
    job = bounded(con)
    agrees(con, job)
    assert sum(vertex.rows_in for vertex in job.metrics().values()) >= 1000


def test_its_columns(con: runnel.Connection) -> None:
    job = bounded(con)
    cursor = con.execute(f"SELECT * FROM {TABLE} WHERE name = 'rows_in' AND vertex LIKE 'write%'")
    assert [column[0] for column in cursor.description or ()] == [
        *("job_id", "job", "kind", "status", "vertex", "processor", "name", "value")
    ]
    assert cursor.fetchall() == [
        (job.record.id, "j", "job", "COMPLETED", "write m", 0, "rows_in", 1000)
    ]


def test_filters_joins_and_groups(con: runnel.Connection) -> None:
    bounded(con)
    rows = con.execute(
        f"SELECT t.table_name, SUM(x.value) FROM {TABLE} AS x JOIN information_schema.tables AS t "
        "ON x.vertex = 'write ' || t.table_name WHERE x.name = 'rows_in' GROUP BY t.table_name"
    ).fetchall()
    assert rows == [("m", 1000)]
    assert con.execute(f"SELECT COUNT(*) FROM {TABLE} WHERE job = 'other'").fetchall() == [(0,)]
    with pytest.raises(runnel.ProgrammingError, match="did you mean"):
        con.execute("SELECT * FROM information_schema.job_metric")


def test_without_jobs() -> None:
    with runnel.connect() as connection:
        assert connection.execute(f"SELECT * FROM {TABLE}").fetchall() == []


def test_a_plan_of_the_cache_shows_the_present(con: runnel.Connection) -> None:
    query = f"SELECT COUNT(DISTINCT job_id) FROM {TABLE}"
    assert con.execute(query).fetchall() == [(0,)]
    bounded(con)
    assert con.execute(query).fetchall() == [(1,)]


def test_each_processor_has_its_values(con: runnel.Connection) -> None:
    con.execute("SET query_parallelism = 2")
    rows = [pa.record_batch({"t": [n, n], "k": [n % 3, 1]}, SCHEMA) for n in range(4)]
    scripts = [[*rows, HOLD], [rows[0], HOLD]]
    con._register("s", ScriptedTable("s", SCHEMA, scripts, EventTime(0, 0, 0)))
    cursor = con.execute("SELECT t, k FROM s")
    for _ in range(10):
        cursor.fetchone()
    where = "name = 'rows_out' AND kind = 'light' AND vertex = 'scan s'"
    expected = {("scan s", 0, "rows_out"): 8, ("scan s", 1, "rows_out"): 2}
    assert eventually(lambda: values(con, where) == expected), values(con, where)
    where = "name = 'watermark' AND vertex = 'scan s'"
    assert values(con, where) == {("scan s", 0, "watermark"): 3, ("scan s", 1, "watermark"): 0}
    cursor.close()
    assert eventually(lambda: values(con) == {}), "a light job leaves nothing"


def streaming(connection: runnel.Connection) -> NamedJob:
    script = [pa.record_batch({"t": [n], "k": [n]}, SCHEMA) for n in (1, 5, 25, 2, 27)]
    connection._register("s", ScriptedTable("s", SCHEMA, [[*script, HOLD]], EventTime(0, 0, 0)))
    connection.execute(f"CREATE JOB j AS {COUNTING}")
    job = connection.job("j")
    assert eventually(lambda: job.late_rows == 1 and job.rows_out == 1)
    return job


def test_metrics_remain_while_a_job_is_suspended(con: runnel.Connection) -> None:
    job = streaming(con)
    con.execute("ALTER JOB j SUSPEND")
    assert job.status is JobStatus.SUSPENDED and job.execution is None
    agrees(con, job)
    assert sum(values(con, "status = 'SUSPENDED' AND name = 'late_rows'").values()) == 1
    assert sum(values(con, "name = 'state_rows'").values()) > 0, "of the end of the execution"
    con.execute("ALTER JOB j RESUME")
    assert eventually(lambda: job.status is JobStatus.RUNNING)
    assert eventually(lambda: sum(vertex.late_rows for vertex in job.metrics().values()) == 0)


def test_metrics_remain_when_the_directory_is_opened_again(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "kept") as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        bounded(connection)
        before = values(connection)
        connection.execute(
            "CREATE JOB failing AS SINK INTO m SELECT v, 1 / (v - 5) "
            "FROM TABLE(GENERATE_SERIES(1, 9)) AS t(v)"
        )
        job = connection.job("failing")
        assert eventually(lambda: job.status is JobStatus.FAILED)
        failed = values(connection, "job = 'failing'")
        assert failed
        connection.execute(
            "CREATE JOB running AS SINK INTO m SELECT v % 10, v "
            "FROM TABLE(GENERATE_STREAM(1000)) AS t(v)"
        )
        connection.execute("ALTER JOB running SUSPEND")
        suspended = values(connection, "job = 'running'")
        assert suspended
    with runnel.connect(tmp_path / "kept") as connection:
        assert values(connection, "job = 'j'") == before
        assert values(connection, "job = 'failing'") == failed
        assert values(connection, "job = 'running'") == suspended
        agrees(connection, connection.job("running"))
        connection.execute("DROP JOB failing")
        assert values(connection, "job = 'failing'") == {}


def test_callers_of_a_server(tmp_path: Path) -> None:
    """A user sees no light jobs of the owner; named jobs, as in SHOW JOBS, are seen by all."""
    with doors(tmp_path / "kept", tmp_path) as opened:
        running = [
            client.execute("SELECT v FROM TABLE(GENERATE_STREAM(5)) AS t(v)")
            for client in (opened.owner, opened.user)
        ]
        query = f"SELECT DISTINCT kind, job FROM {TABLE} ORDER BY kind, job"
        assert eventually(lambda: len(opened.owner.execute(query).fetchall()) == 2)
        owners = opened.owner.execute(query).fetchall()
        users = opened.user.execute(query).fetchall()
        assert len(users) == 1 and users[0] in owners
        opened.owner.execute(f"CREATE MAPPING m {MAP}")
        opened.owner.execute("CREATE JOB j AS SINK INTO m SELECT 1, 1")
        assert eventually(lambda: ("job", "j") in opened.user.execute(query).fetchall())
        assert len(opened.user.execute(query).fetchall()) == 2
        for cursor in running:
            cursor.close()


def test_a_job_cannot_read_it(con: runnel.Connection) -> None:
    query = f"SELECT processor, MAX(value) FROM {TABLE} GROUP BY processor"
    with pytest.raises(runnel.NotSupportedError, match="job_metrics cannot be read by a job"):
        con.execute(f"CREATE JOB j AS SINK INTO m {query}")


def test_a_write_reads_it(con: runnel.Connection) -> None:
    bounded(con)
    con.execute("CREATE MAPPING saved (name VARCHAR, v BIGINT) TYPE DuckDB")
    con.execute(f"INSERT INTO saved SELECT name, SUM(value) FROM {TABLE} GROUP BY name")
    assert con.execute("SELECT COUNT(*) FROM saved").fetchall()[0][0] >= len(COUNTS)


def test_with_fragments(con: runnel.Connection) -> None:
    con.execute("SET fragment_rows = 0")
    bounded(con)
    query = f"SELECT name, SUM(value) FROM {TABLE} WHERE name = 'rows_in' GROUP BY name"
    (row,) = con.execute(query).fetchall()
    assert row[1] >= 1000
