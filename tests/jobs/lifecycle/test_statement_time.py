"""NOW() and its relatives where rows go on coming: refused in jobs, the statement's time in SELECT,
which is said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from tests.waiting import eventually

PATIENCE = 20
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("v", pa.int64()), ("t", pa.time64("us"))])


@pytest.fixture
def connection() -> Iterator[Connection]:
    with runnel.connect() as connection:
        connection.register_stream("s", SCHEMA, time_column="ts")
        connection.execute("CREATE MAPPING o (at TIMESTAMP, v BIGINT) TYPE DuckDB")
        connection.execute(
            "CREATE VIEW seen AS SELECT ts, v, CAST(NOW() AS TIMESTAMP) AS at FROM s"
        )
        connection.execute("CREATE MAPPING ended (v BIGINT) TYPE DuckDB")
        connection.execute("INSERT INTO ended VALUES (1), (2)")
        yield connection


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (
            (
                "SELECT ts, v FROM s WHERE CAST(ts AS TIMESTAMP WITH TIME ZONE) > NOW() - INTERVAL "
                "'1' DAY"
            ),
            r"NOW\(\)",
        ),
        ("SELECT ts, v FROM s WHERE ts > LOCALTIMESTAMP", "LOCALTIMESTAMP"),
        (
            "SELECT ts, SUM(v) FROM s WHERE CAST(ts AS DATE) = CURRENT_DATE GROUP BY ts",
            "CURRENT_DATE",
        ),
        ("SELECT ts, v FROM s WHERE CAST(ts AS TIME) < CURRENT_TIME", "CURRENT_TIME"),
        (
            "SELECT ts, COUNT(*) FILTER (WHERE ts > CURRENT_TIMESTAMP) FROM s GROUP BY ts",
            "CURRENT_TIMESTAMP",
        ),
        ("SELECT at, v FROM seen", r"NOW\(\)"),
        ("SELECT CAST(t AS TIMESTAMP), v FROM s", "adds CURRENT_DATE"),
        ("SELECT ts, v FROM s WHERE AGE(ts) < INTERVAL '1' DAY", "AGE of one argument"),
        (
            (
                "SELECT ts, v FROM s JOIN (SELECT v AS w FROM ended "
                "WHERE v < YEAR(NOW())) AS e ON v = w"
            ),
            r"NOW\(\)",
        ),
    ],
)
def test_a_job_over_a_stream_has_no_time_of_its_own(
    connection: Connection, query: str, name: str
) -> None:
    with pytest.raises(
        runnel.NotSupportedError, match=f"{name}.* is not supported in a job over a stream"
    ) as caught:
        connection.execute(f"CREATE JOB j AS INSERT INTO o {query}")
    assert "the time of CREATE JOB" in (caught.value.detail or "") and "event time" in (
        caught.value.hint or ""
    )
    assert connection.execute("SHOW JOBS FULL").fetchall() == []
    connection.execute("CREATE JOB j AS INSERT INTO o SELECT ts, v FROM seen")
    with pytest.raises(runnel.NotSupportedError, match=name):
        connection.execute(f"ALTER JOB j AS INSERT INTO o {query}", timeout=PATIENCE)
    assert connection.job("j").status is runnel.JobStatus.RUNNING


def test_the_error_points_at_the_call(connection: Connection) -> None:
    text = "CREATE JOB j AS INSERT INTO o SELECT ts, v FROM s WHERE ts > LOCALTIMESTAMP"
    with pytest.raises(runnel.NotSupportedError) as caught:
        connection.execute(text)
    assert caught.value.position is not None
    assert caught.value.position.column == text.index("LOCALTIMESTAMP") + 1


def test_a_job_over_tables_has_the_time_of_its_creation(connection: Connection) -> None:
    before = datetime.now().astimezone()
    connection.execute(
        "CREATE JOB j AS INSERT INTO o SELECT CAST(NOW() AS TIMESTAMP), v FROM ended"
    )
    connection.job("j").join(PATIENCE)
    rows = connection.execute("SELECT at AT TIME ZONE 'UTC', v FROM o ORDER BY v").fetchall()
    assert [v for _, v in rows] == [1, 2]
    assert len({at for at, _ in rows}) == 1 and before <= rows[0][0] <= datetime.now().astimezone()


def test_a_select_over_a_stream_says_whose_time_it_is(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    text = "SELECT v, NOW() FROM s"
    plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {text}").fetchall())
    said = "NOW() (CURRENT_TIMESTAMP): the time at which the statement started, for all rows"
    assert f"notice: {said}" in plan and not caplog.messages
    connection.execute(text).close()
    assert eventually(lambda: said in caplog.messages)
    caplog.clear()
    connection.execute("SELECT v, NOW() FROM ended").fetchall()
    assert said not in caplog.messages
