"""Jobs that run on Spark: what they write, their life, and when Spark is chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.storage.durable_files import sealed, unsealed

ON_SPARK = "OPTIONS ('runtime' = 'spark')"


@pytest.fixture
def home(session: Any, tmp_path: Path) -> Iterator[Path]:
    """A folder with 1,000 rows of Parquet that Spark has written in "in"."""
    session.range(0, 1000, 1, 3).selectExpr(
        "id", "CASE WHEN id % 7 = 0 THEN NULL ELSE concat('k', id % 5) END AS k", "id * 1.5D AS v"
    ).write.parquet(f"{tmp_path}/in")
    yield tmp_path


def mappings(connection: runnel.Connection, home: Path) -> None:
    connection.execute(f"""CREATE MAPPING IF NOT EXISTS source (id BIGINT, k VARCHAR, v DOUBLE)
        TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{home}/in')""")
    connection.execute(f"""CREATE MAPPING IF NOT EXISTS sink (k VARCHAR, n BIGINT, total DOUBLE,
        note VARCHAR)
        TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{home}/out')""")


QUERY = (
    "INSERT INTO sink (k, total, n) SELECT k, SUM(v), COUNT(*) FROM source WHERE id % 3 <> 1 "
    "GROUP BY k"
)


def expected(connection: runnel.Connection) -> list[Any]:
    text = (
        "SELECT k, COUNT(*), SUM(v), CAST(NULL AS VARCHAR) FROM source WHERE id % 3 <> 1 "
        "GROUP BY k ORDER BY 1"
    )
    return connection.execute(text).fetchall()


def shown(connection: runnel.Connection, name: str, *columns: str) -> tuple[Any, ...]:
    rows = connection.execute("SHOW JOBS FULL")
    places = [[item[0] for item in rows.description].index(column) for column in columns]
    return next(tuple(row[i] for i in places) for row in rows.fetchall() if row[1] == name)


def test_a_bounded_job_writes_what_its_query_gives(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    connection.execute(f"CREATE JOB j {ON_SPARK} AS {QUERY}")
    job = connection.job("j")
    job.join(60)
    assert connection.execute("SELECT * FROM sink ORDER BY k").fetchall() == expected(connection)
    columns = ("status", "runtime", "guarantee", "rows_in", "rows_out", "last_error")
    assert shown(connection, "j", *columns) == ("COMPLETED", "spark", "exactlyOnce", 1000, 6, None)
    assert not [item for item in (home / "out").iterdir() if item.name.startswith("_runnel")]
    connection.execute("DROP JOB j")
    assert "j" not in [row[1] for row in connection.execute("SHOW JOBS FULL").fetchall()]


def test_rows_go_to_a_map_and_arguments_come_along(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'double')"
    )
    connection.execute(
        f"CREATE JOB j {ON_SPARK} AS SINK INTO m SELECT id, v * ? FROM source WHERE id < ?", (2, 50)
    )
    connection.job("j").join(60)
    assert connection.execute("SELECT COUNT(*), SUM(this) FROM m").fetchall() == [(50, 3675.0)]
    assert shown(connection, "j", "rows_out") == (50,)


def test_small_tables_of_others_travel(connection: runnel.Connection, home: Path) -> None:
    mappings(connection, home)
    connection.register("names", pa.table({"k": ["k1", "k2"], "name": ["one", "two"]}))
    connection.execute(
        f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (k, note, n) "
        "SELECT s.k, d.name, s.id FROM source s JOIN names d ON d.k = s.k WHERE s.id < 13"
    )
    connection.job("j").join(60)
    assert connection.execute("SELECT n, note FROM sink ORDER BY n").fetchall() == [
        *((1, "one"), (2, "two"), (6, "one"), (11, "one"), (12, "two"))
    ]


def test_a_failing_query_fails_the_job(connection: runnel.Connection, home: Path) -> None:
    mappings(connection, home)
    connection.execute(
        f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (n) SELECT 10 / (id - 500) FROM source"
    )
    with pytest.raises(runnel.DataError, match="division by zero") as caught:
        connection.job("j").join(60)
    assert "DIVIDE_BY_ZERO" in (caught.value.detail or "")
    status, told = shown(connection, "j", "status", "last_error")
    assert status == "FAILED"
    assert told.startswith("division by zero")
    assert not list(home.glob("out/*"))


def test_what_cant_be_rendered_is_refused_by_name(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    with pytest.raises(
        runnel.NotSupportedError, match=r"can't run on spark: .+ is not supported there"
    ) as caught:
        connection.execute(
            f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (k, total) SELECT k, RAND() FROM source"
        )
    assert "'runtime' = 'tasklets'" in (caught.value.hint or "")
    connection.register("rows", pa.table({"k": ["a"]}))
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'varchar')"
    )
    with pytest.raises(runnel.NotSupportedError, match="none of its tables belongs to it"):
        connection.execute(f"CREATE JOB j {ON_SPARK} AS SINK INTO m SELECT k, k FROM rows")
    assert connection.execute("SHOW JOBS FULL").fetchall() == []


def test_a_job_that_is_dropped_in_the_middle_leaves_nothing(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    slow = (
        "SELECT a.k, COUNT(*) FROM source a, source b, source c, source d "
        "WHERE a.id + b.id + c.id <> d.id GROUP BY a.k"
    )
    connection.execute(f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (k, n) {slow}")
    job = connection.job("j")
    assert job.status is runnel.JobStatus.RUNNING
    job.suspend(60)
    assert job.status is runnel.JobStatus.SUSPENDED
    assert job.error is None
    job.resume()
    assert job.status is runnel.JobStatus.RUNNING
    job.restart(60)
    assert shown(connection, "j", "status", "restarts") == ("RUNNING", 1)
    with pytest.raises(runnel.NotSupportedError, match="has no snapshots: it runs on spark"):
        connection.execute("CREATE SNAPSHOT s FOR JOB j")
    with pytest.raises(runnel.NotSupportedError, match="can't get another query"):
        connection.execute(f"ALTER JOB j AS {QUERY}")
    job.cancel(60)
    with pytest.raises(runnel.OperationalError, match="was cancelled"):
        job.join(60)
    connection.execute("DROP JOB j")
    assert not list(home.glob("out/*"))


def test_a_batch_that_is_committed_is_not_written_again(session: Any, home: Path) -> None:
    """The record may be lost between the last commit and the end."""
    with runnel.connect(home / "db", spark=session) as connection:
        mappings(connection, home)
        connection.execute(f"CREATE JOB j {ON_SPARK} AS {QUERY}")
        connection.job("j").join(60)
        rows = expected(connection)
        number = connection.job("j").id
    place = home / "db" / "jobs" / str(number)
    files = sorted(item.name for item in (home / "out").glob("*.parquet"))
    record = unsealed((place / "job.json").read_bytes(), 2)
    renames = [[f"{home}/out/_runnel-0-x/{name}", f"{home}/out/{name}"] for name in files]
    token = {"staging": f"{home}/out/_runnel-0-x", "renames": renames}
    (place / "job.json").write_text(
        sealed({**record, "status": "RUNNING", "finished": None, "last_batch": []})
    )
    (place / "runtime").mkdir(exist_ok=True)
    (place / "runtime" / "committed.json").write_text(json.dumps({"batch": 1, "token": token}))
    with runnel.connect(home / "db", spark=session) as connection:
        connection.job("j").join(60)
        assert connection.execute("SELECT * FROM sink ORDER BY k").fetchall() == rows


def test_a_job_goes_on_when_its_directory_is_opened(session: Any, home: Path) -> None:
    with runnel.connect(home / "db", spark=session) as connection:
        mappings(connection, home)
        slow = (
            "SELECT a.k, COUNT(*) FROM source a, source b, source c, source d "
            "WHERE a.id + b.id + c.id <> d.id GROUP BY a.k"
        )
        connection.execute(f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (k, n) {slow}")
    # Meanwhile there are fewer rows.
    session.range(0, 3).selectExpr("id", "'k' AS k", "0D AS v").write.mode("overwrite").parquet(
        f"{home}/in"
    )
    with runnel.connect(home / "db", spark=session) as connection:
        connection.job("j").join(60)
        assert connection.execute("SELECT * FROM sink").fetchall() == [("k", 71, None, None)]
        assert shown(connection, "j", "runtime", "status") == ("spark", "COMPLETED")


def explained(connection: runnel.Connection, text: str) -> list[str]:
    return [row[0] for row in connection.execute(f"EXPLAIN {text}").fetchall()]


def test_auto_goes_by_what_is_read(connection: runnel.Connection, home: Path) -> None:
    mappings(connection, home)
    connection.execute("SELECT COUNT(*) FROM source").fetchall()  # Spark runs, and knows its files
    lines = explained(connection, f"CREATE JOB j AS {QUERY}")
    assert [line for line in lines if line.startswith("  runtime: tasklets, as it reads about ")]
    connection.execute(f"CREATE JOB j AS {QUERY}")
    connection.job("j").join(60)
    assert shown(connection, "j", "runtime") == ("tasklets",)
    rows = connection.execute("SELECT * FROM sink ORDER BY k").fetchall()
    connection.execute("SET spark_job_rows = 10")
    lines = explained(connection, f"CREATE JOB j AS {QUERY}")
    assert lines[0].startswith("Job j: exactlyOnce, on spark, as it reads about ")
    assert lines[0].endswith(" rows, and spark_job_rows is 10")
    assert lines[1:3] == [
        "  source: read by Spark",
        "  sink: exactlyOnce, after a failure before the end it starts again",
    ]
    assert lines[3].startswith("  SQL: SELECT ")
    lines = explained(connection, f"CREATE JOB j OPTIONS ('runtime' = 'tasklets') AS {QUERY}")
    assert "  runtime: tasklets, as the option 'runtime' says so" in lines
    connection.execute(f"CREATE JOB k AS {QUERY}")
    connection.job("k").join(60)
    assert shown(connection, "k", "runtime") == ("spark",)
    assert sorted(connection.execute("SELECT * FROM sink").fetchall(), key=str) == sorted(
        rows * 2, key=str
    )


def test_a_stream_is_read_by_spark_where_both_ends_are_there(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    connection.execute(f"""CREATE MAPPING stream (id BIGINT, k VARCHAR) TYPE Spark
        OPTIONS ('format' = 'parquet', 'path' = '{home}/in', 'follow' = 'true')""")
    connection.execute(
        "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"
    )
    lines = explained(
        connection, "CREATE JOB j AS INSERT INTO sink (k, n) SELECT k, id FROM stream"
    )
    assert lines[0] == "Job j: exactlyOnce, on spark, as its source and its sink are on spark"
    assert lines[1:3] == ["  stream: read on by Spark from its checkpoint", "  sink: exactlyOnce"]
    lines = explained(connection, "CREATE JOB j AS SINK INTO m SELECT id, k FROM stream")
    assert "  runtime: tasklets, as its sink is not on spark" in lines


def test_a_changed_query_doesnt_go_on_from_the_checkpoint(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    connection.execute(f"""CREATE MAPPING stream (id BIGINT, k VARCHAR) TYPE Spark
        OPTIONS ('format' = 'parquet', 'path' = '{home}/in', 'follow' = 'true')""")
    connection.execute("CREATE VIEW v AS SELECT k, id FROM stream")
    connection.execute(f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (k, n) SELECT k, id FROM v")
    connection.execute("ALTER JOB j SUSPEND")
    connection.execute("CREATE OR REPLACE VIEW v AS SELECT k, id + 1 AS id FROM stream")
    with pytest.raises(
        runnel.OperationalError,
        match="can't resume from its checkpoint: its query has changed",
    ):
        connection.execute("ALTER JOB j RESUME")
    assert shown(connection, "j", "status") == ("SUSPENDED",)
    connection.execute("CREATE OR REPLACE VIEW v AS SELECT k, id FROM stream")
    connection.execute("ALTER JOB j RESUME")
    connection.execute("DROP JOB j")


def test_a_folder_that_is_gone_is_told_when_the_job_is_made(
    connection: runnel.Connection, home: Path
) -> None:
    mappings(connection, home)
    connection.execute(
        "CREATE MAPPING gone (id BIGINT) TYPE Spark "
        f"OPTIONS ('format' = 'parquet', 'path' = '{home}/gone')"
    )
    with pytest.raises(runnel.ProgrammingError, match="path does not exist"):
        connection.execute(f"CREATE JOB j {ON_SPARK} AS INSERT INTO sink (n) SELECT id FROM gone")
    assert connection.execute("SHOW JOBS FULL").fetchall() == []
    connection.execute(f"CREATE JOB j {ON_SPARK} AS {QUERY}")
    connection.job("j").join(60)


def test_generated_rows_with_a_watermark(connection: runnel.Connection, tmp_path: Path) -> None:
    """A stream that Spark does not read is refused there by name; by itself the job runs on
    tasklets, and counts all rows of all windows."""
    connection.execute(
        "CREATE TABLE made (id BIGINT, ts AS TIMESTAMP '2024-01-01 00:00:00' + id * INTERVAL '1' "
        "SECOND, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '200', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '200')"
    )
    connection.execute(
        "CREATE MAPPING counted (t TIMESTAMP, n BIGINT) TYPE Spark "
        f"OPTIONS ('format' = 'parquet', 'path' = '{tmp_path / 'counted'}')"
    )
    query = (
        "INSERT INTO counted SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE made, "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    with pytest.raises(runnel.NotSupportedError, match='"made", which is not on Spark'):
        connection.execute(f"CREATE JOB j {ON_SPARK} AS {query}")
    connection.execute(f"CREATE JOB j AS {query}")
    connection.job("j").join(60)
    assert connection.execute("SELECT n FROM counted ORDER BY t").fetchall() == [
        (count,) for count in (59, 60, 60, 21)
    ]
