"""CREATE JOB and its like through a cursor. Streams are pushed by the test; a named snapshot makes
rows visible at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.storage.value_codec import decode, encode
from tests.waiting import eventually

PATIENCE = 20
MAP = "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def connection() -> Iterator[Connection]:
    with runnel.connect() as made:
        made.execute(f"CREATE MAPPING m {MAP}")
        yield made


def shown(connection: Connection, statement: str = "SHOW JOBS FULL") -> list[dict[str, Any]]:
    cursor = connection.execute(statement)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def rows(connection: Connection, table: str = "m") -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def test_a_stream_is_written_until_it_ends(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    assert (
        connection.execute(
            "CREATE JOB j AS SINK INTO m SELECT k, v * 10 FROM s WHERE v > 1"
        ).rowcount
        == -1
    )
    job = connection.job("j")
    assert isinstance(job, runnel.NamedJob) and job.status is JobStatus.RUNNING
    assert connection.jobs() == [job]
    writer.write([(1, 1), (2, 2), (3, 3)])
    writer.close()
    job.join(PATIENCE)
    assert rows(connection) == [(2, 20), (3, 30)]
    (row,) = shown(connection)
    assert (row["name"], row["status"], row["kind"], row["runtime"]) == (
        "j",
        "COMPLETED",
        "job",
        "tasklets",
    )
    assert (row["rows_in"], row["rows_out"], row["restarts"], row["guarantee"]) == (
        2,
        2,
        0,
        "atMostOnce",
    )
    assert row["query"] == "SINK INTO m SELECT k, v * 10 FROM s WHERE v > 1"
    assert row["last_error"] is None and connection.jobs() == []


def test_a_bounded_query_completes(connection: Connection) -> None:
    connection.execute(
        "CREATE JOB j AS INSERT INTO m SELECT v, v * v FROM TABLE(GENERATE_SERIES(1, 1000)) AS t(v)"
    )
    connection.job("j").join(PATIENCE)
    assert connection.execute("SELECT COUNT(*), SUM(this) FROM m").fetchall() == [
        (1000, sum(i * i for i in range(1, 1001)))
    ]


def test_values_are_rows_like_others(connection: Connection) -> None:
    connection.execute("CREATE JOB j AS INSERT INTO m VALUES (1, 2), (3, 4)")
    connection.job("j").join(PATIENCE)
    assert rows(connection) == [(1, 2), (3, 4)]


def test_outside_of_a_job_it_is_refused(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    with pytest.raises(runnel.NotSupportedError, match="must run as a job") as caught:
        connection.execute("SINK INTO m SELECT k, v FROM s")
    assert caught.value.hint is not None and "CREATE JOB" in caught.value.hint


def test_suspend_resume_and_restart(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    job = connection.job("j")
    writer.write([(1, 1), (2, 2)])
    assert eventually(lambda: job.rows_out == 2)
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    assert [row["status"] for row in shown(connection)] == ["SUSPENDED"]
    assert rows(connection) == [(1, 1), (2, 2)], "a last snapshot commits what was written"
    connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    assert job.status is JobStatus.RUNNING
    writer.write([(3, 3)])
    assert eventually(lambda: job.rows_out == 1)
    connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
    assert rows(connection) == [(1, 1), (2, 2), (3, 3)]
    assert [row["restarts"] for row in shown(connection)] == [1]
    connection.execute("ALTER JOB j RESUME")
    assert job.status is JobStatus.RUNNING


def test_windows_go_on_where_they_were(connection: Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    connection.execute(
        "CREATE JOB j AS SINK INTO m SELECT window_end, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end"
    )
    job = connection.job("j")
    writer.write([(1, 1), (1, 2), (1, 9)])
    assert eventually(lambda: job.rows_in == 3)
    job.suspend(PATIENCE)
    job.resume()
    writer.write([(1, 5), (1, 11)])
    writer.close()
    job.join(PATIENCE)
    assert rows(connection) == [(10, 4), (20, 1)]


def test_what_had_ended_is_not_read_again_by_a_job_that_begins_with_a_snapshot(
    connection: Connection,
) -> None:
    """The table that a stream is joined with is in the state of the join already."""
    writer = connection.register_stream("s", SCHEMA)
    connection.register("names", pa.table({"k": [1, 2], "code": [10, 20]}))
    query = "INSERT INTO m SELECT s.v, n.code FROM s JOIN names n ON s.k = n.k"
    connection.execute(f"CREATE JOB j AS {query}")
    writer.write([(1, 1), (2, 2)])
    assert eventually(lambda: connection.job("j").rows_out == 2)
    connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
    connection.execute("DROP JOB j WITH SNAPSHOT half", timeout=PATIENCE)
    connection.execute(f"CREATE JOB k OPTIONS ('initialSnapshotName'='half') AS {query}")
    writer.write([(1, 3), (2, 4)])
    writer.close()
    connection.job("k").join(PATIENCE)
    assert rows(connection) == [(1, 10), (2, 20), (3, 10), (4, 20)]


def test_snapshots_have_names_and_begin_jobs(connection: Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    count = (
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end"
    )
    connection.execute(f"CREATE JOB j AS SINK INTO m {count}")
    writer.write([(1, 1), (1, 2)])
    assert eventually(lambda: connection.job("j").rows_in == 2)
    connection.execute("CREATE SNAPSHOT before FOR JOB j", timeout=PATIENCE)
    with pytest.raises(runnel.ProgrammingError, match='snapshot "before" exists already'):
        connection.execute("CREATE SNAPSHOT Before FOR JOB j")
    connection.execute("CREATE OR REPLACE SNAPSHOT before FOR JOB j", timeout=PATIENCE)
    connection.execute("DROP JOB j WITH SNAPSHOT after", timeout=PATIENCE)
    assert shown(connection) == []
    found = shown(connection, "SHOW SNAPSHOTS")
    assert [(row["name"], row["job"]) for row in found] == [("after", "j"), ("before", "j")]
    assert all(row["rows"] > 0 and row["bytes"] > 0 for row in found)
    connection.execute(
        f"CREATE JOB k OPTIONS ('initialSnapshotName'='after') AS SINK INTO m {count}"
    )
    writer.write([(1, 3)])
    writer.close()
    connection.job("k").join(PATIENCE)
    assert rows(connection) == [(10, 3)]
    connection.execute("DROP SNAPSHOT after")
    connection.execute("DROP SNAPSHOT IF EXISTS after")
    assert [row["name"] for row in shown(connection, "SHOW SNAPSHOTS")] == ["before"]


def test_if_not_exists_and_if_exists(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    first = connection.job("j")
    connection.execute("CREATE JOB IF NOT EXISTS J AS SINK INTO m SELECT k, v FROM s")
    assert connection.job("j") is first
    with pytest.raises(runnel.ProgrammingError, match='job "j" exists already'):
        connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    connection.execute("DROP JOB j")
    connection.execute("DROP JOB IF EXISTS j")


QUERY = "AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(10)) AS t(v)"
WRONG_NAMES = (
    "DROP JOB >x",
    "VERIFY JOB >x",
    "ALTER JOB >x RESUME",
    f"ALTER JOB >x {QUERY}",
    f"EXPLAIN ALTER JOB >x {QUERY}",
    "CREATE SNAPSHOT s FOR JOB >x",
    "DROP SNAPSHOT >x",
    (
        "CREATE JOB IF NOT EXISTS x OPTIONS ('metricsEnabled'='true', "
        f">'initialSnapshotName'='x') {QUERY}"
    ),
    f"CREATE JOB >j {QUERY}",
)


def test_errors_point_at_the_name_that_is_wrong(connection: Connection) -> None:
    connection.execute(f"CREATE JOB j {QUERY}")
    for text in WRONG_NAMES:
        with pytest.raises(
            runnel.ProgrammingError, match=r'(job|snapshot) "x" not found|job "j" exists already'
        ) as caught:
            connection.execute(text.replace(">", ""))
        position = caught.value.position
        assert position is not None and position.offset == text.index(">"), text


def test_arguments_are_those_of_the_query(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v + ? FROM s WHERE k <> ?", (100, 2))
    job = connection.job("j")
    writer.write([(1, 1), (2, 2)])
    assert eventually(lambda: job.rows_out == 1)
    job.restart(PATIENCE)
    writer.write([(3, 3)])
    writer.close()
    job.join(PATIENCE)
    assert rows(connection) == [(1, 101), (3, 103)]


VALUES = [
    *(
        None,
        True,
        3,
        -(2**63),
        1.5,
        float("inf"),
        "ä\n",
        b"\x00\xff",
        Decimal("-1.230"),
        date(2024, 2, 29),
    ),
    *(
        datetime(2024, 1, 1, 2, 3, 4, 5),
        datetime(2024, 1, 1, tzinfo=UTC),
        timedelta(days=-1, microseconds=1),
        UUID(int=7),
    ),
    *([1, None, [2.5]], (1, "x"), {"a": Decimal(1), 2: None}),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_arguments_survive_json(value: Any) -> None:
    import json

    again = decode(json.loads(json.dumps(encode(value))))
    assert again == value and type(again) is type(value)


def test_options_can_be_changed_while_suspended(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute(
        "CREATE JOB j OPTIONS ('snapshotIntervalMillis'='5000') AS SINK INTO m SELECT k, v FROM s"
    )
    job = connection.job("j")
    with pytest.raises(
        runnel.OperationalError, match='job "j" can\'t be changed: its status is RUNNING'
    ):
        connection.execute("ALTER JOB j OPTIONS ('snapshotIntervalMillis'='7')")
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    connection.execute(
        "ALTER JOB j OPTIONS ('snapshotIntervalMillis'='7', 'suspendOnFailure'='false') RESUME"
    )
    assert job.status is JobStatus.RUNNING
    assert (job.record.options.snapshot_interval, job.record.options.suspend_on_failure) == (
        7,
        False,
    )


def test_a_new_query_goes_on_with_the_state(connection: Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    windows = "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) GROUP BY window_end"
    connection.execute(f"CREATE JOB j AS SINK INTO m SELECT window_end, COUNT(*) {windows}")
    job = connection.job("j")
    writer.write([(1, 1), (1, 2)])
    assert eventually(lambda: job.rows_in == 2)
    connection.execute(
        f"ALTER JOB j AS SINK INTO m SELECT window_end, COUNT(*) * 100 {windows}", timeout=PATIENCE
    )
    assert job.status is JobStatus.RUNNING
    writer.write([(1, 3)])
    writer.close()
    job.join(PATIENCE)
    assert rows(connection) == [(10, 300)]


def test_a_failure_is_shown_and_the_job_waits_to_be_resumed(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, 10 / v FROM s")
    job = connection.job("j")
    writer.write([(1, 0)])
    assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
    (row,) = shown(connection)
    assert row["status"] == "SUSPENDED" and "division by zero" in row["last_error"]
    assert isinstance(job.error, runnel.DataError)


def test_what_keeps_a_job_from_resuming_is_shown_in_its_query(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    connection.execute("ALTER JOB j SUSPEND")
    connection.execute("DROP MAPPING m CASCADE")
    with pytest.raises(runnel.ProgrammingError, match='object "m" not found') as caught:
        connection.execute("ALTER JOB j RESUME")
    assert "LINE 1: SINK INTO m SELECT" in str(caught.value)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_a_time_to_wait_that_is_none(connection: Connection, timeout: Any) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    job = connection.job("j")
    assert isinstance(job, runnel.NamedJob)
    for waiting in (job.join, job.wait, job.suspend, job.restart, job.cancel):
        with pytest.raises(runnel.InterfaceError, match="timeout must be a number of seconds"):
            waiting(timeout)
    assert job.status is JobStatus.RUNNING
    assert not job.wait(0)


def test_wrong_arguments_of_the_handle(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    job: Any = connection.job("j")
    for name in ("", None, 5):
        with pytest.raises(runnel.InterfaceError, match="the name of a snapshot is a str"):
            job.export_snapshot(name)
        with pytest.raises(runnel.InterfaceError, match="the name of a snapshot is a str"):
            job.cancel_and_export_snapshot(name)
    with pytest.raises(runnel.InterfaceError, match="JobStatus"):
        job.await_status("SUSPENDED")
    with pytest.raises(runnel.InterfaceError, match="a listener must be callable"):
        job.add_listener(None)
    job.remove_listener(print)
    assert job.status is JobStatus.RUNNING and shown(connection, "SHOW SNAPSHOTS") == []


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_without_guarantee_a_suspension_loses_nothing(tmp_path: Path, kind: str) -> None:
    """Rows wait up to a second for their commit: the last snapshot must not leave them behind."""
    (tmp_path / "out").mkdir()
    options = f"'path'='{tmp_path / 'out'}', 'format'='{kind}'"
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(f"CREATE MAPPING f (k BIGINT, v BIGINT) TYPE File OPTIONS ({options})")
        writer = connection.register_stream("s", SCHEMA)
        connection.execute(
            "CREATE JOB j OPTIONS ('processingGuarantee'='none') AS INSERT INTO f SELECT k, v "
            "FROM s"
        )
        for number, change in enumerate(("SUSPEND", "RESTART", "SUSPEND")):
            writer.write([(number, 1)])
            assert eventually(lambda: connection.job("j").rows_out >= 1)
            connection.execute(f"ALTER JOB j {change}")
            assert rows(connection, "f") == [(k, 1) for k in range(number + 1)]
            connection.execute("ALTER JOB j RESUME")
        writer.write([(3, 1)])
        assert eventually(lambda: connection.job("j").rows_out >= 1)
    with runnel.connect(tmp_path / "db") as connection:
        assert rows(connection, "f") == [(k, 1) for k in range(4)]


def test_two_drops_at_once_leave_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with runnel.connect(tmp_path) as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.register_stream("s", SCHEMA)
        connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
        records = connection._database.named_jobs.records
        save = records.save
        other = Thread(target=connection.execute, args=("DROP JOB IF EXISTS j",))

        def saving(record: Any) -> None:
            if record.status is JobStatus.FAILED:
                other.start()
                other.join(0.2)  # it has to wait: the record is about to be written
            save(record)

        records.save = saving  # type: ignore[method-assign]
        connection.execute("DROP JOB IF EXISTS j")
        other.join(PATIENCE)
        assert list((tmp_path / "jobs").iterdir()) == [] and shown(connection) == []
    assert "can't be written" not in "\n".join(caplog.messages)


def test_closing_the_connection_commits_what_was_written(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        writer = connection.register_stream("s", SCHEMA)
        connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
        writer.write([(1, 1)])
        assert eventually(lambda: connection.job("j").rows_out == 1)
    with runnel.connect(tmp_path) as connection:
        assert rows(connection) == [(1, 1)]
        (row,) = shown(connection)
        assert row["status"] == "SUSPENDED", "its stream is not there again"
        assert "s" in row["last_error"] and "not found" in row["last_error"]
        writer = connection.register_stream("s", SCHEMA)
        connection.execute("ALTER JOB j RESUME")
        writer.write([(2, 2)])
        writer.close()
        connection.job("j").join(PATIENCE)
        assert rows(connection) == [(1, 1), (2, 2)]


def test_explain(connection: Connection) -> None:
    connection.register_stream("s", SCHEMA)
    text = (
        "CREATE JOB j OPTIONS ('processingGuarantee'='atLeastOnce') AS SINK INTO m SELECT k, v "
        "FROM s"
    )
    lines = [row[0] for row in connection.execute(f"EXPLAIN {text}").fetchall()]
    assert lines[:5] == [
        "Job j: atLeastOnce, a snapshot every 10000 ms",
        (
            "  scan s: can't be read again: rows that came since the last snapshot are lost in a "
            "failure"
        ),
        "  write m: atLeastOnce",
        "  from end to end: none",
        "",
    ]
    assert "Write m (mode: sink; columns: __key, this)" in lines
    assert shown(connection) == [], "it is not made"


WINDOWS = "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10))"
KEYED = "SINK INTO m SELECT window_end, {} " + WINDOWS + " GROUP BY window_end"


@pytest.fixture
def counting(connection: Connection) -> Connection:
    """A connection with a job that counts clicks, of which a snapshot was taken."""
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    connection.execute(f"CREATE JOB j AS {KEYED.format('COUNT(*)')}")
    writer.write([(1, 1), (1, 2)])
    assert eventually(lambda: connection.job("j").rows_in == 2)
    connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
    return connection


@pytest.mark.parametrize(
    ("query", "fates"),
    [
        (KEYED.format("COUNT(*) + 1"), {"kept"}),
        (KEYED.format("SUM(k)"), {"kept", "refused"}),
        (KEYED.format("COUNT(*)").replace("10", "20"), {"kept", "recombined"}),
        ("SINK INTO m SELECT k, ts FROM clicks", {"kept", "dropped"}),
    ],
)
def test_a_new_query_keeps_the_state_of_what_is_the_same(
    counting: Connection, query: str, fates: set[str]
) -> None:
    lines = [row[0] for row in counting.execute(f"EXPLAIN ALTER JOB j AS {query}").fetchall()]
    start = lines.index("State")
    shown = lines[start + 1 : lines.index("", start)]
    assert {line.split(": ")[1].split(",")[0] for line in shown if line[2] != " "} == fates
    job = counting.job("j")
    before = job.record
    if "refused" in fates:
        with pytest.raises(runnel.OperationalError, match="can't resume from its snapshot"):
            counting.execute(f"ALTER JOB j AS {query}", timeout=PATIENCE)
        assert job.record.query == before.query
        with pytest.raises(runnel.OperationalError, match="can't resume from its snapshot"):
            counting.execute(f"CREATE JOB k OPTIONS ('initialSnapshotName'='s') AS {query}")
        assert [item.name for item in counting.jobs()] == ["j"]
    else:
        counting.execute(f"ALTER JOB j AS {query}", timeout=PATIENCE)
        assert job.record.query == query
    assert job.status is JobStatus.RUNNING


def test_a_view_that_means_something_else_now_is_no_silent_change(connection: Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    connection.execute(
        f"CREATE VIEW counts AS SELECT window_end, COUNT(*) AS n {WINDOWS} GROUP BY window_end"
    )
    connection.execute("CREATE JOB j AS SINK INTO m SELECT window_end, n FROM counts")
    job = connection.job("j")
    writer.write([(1, 1), (1, 2)])
    assert eventually(lambda: job.rows_in == 2)
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    connection.execute(
        f"CREATE OR REPLACE VIEW counts AS SELECT window_end, SUM(k) AS n {WINDOWS} "
        "GROUP BY window_end"
    )
    with pytest.raises(runnel.OperationalError, match="its plan has changed"):
        connection.execute("ALTER JOB j RESUME")
    assert job.status is JobStatus.SUSPENDED
    connection.execute(
        f"CREATE OR REPLACE VIEW counts AS SELECT window_end, COUNT(*) AS n {WINDOWS} "
        "GROUP BY window_end"
    )
    connection.execute("ALTER JOB j RESUME")
    writer.close()
    job.join(PATIENCE)
    assert rows(connection) == [(10, 2)]


def test_state_can_be_read(counting: Connection) -> None:
    cursor = counting.execute("SELECT * FROM TABLE(SNAPSHOT_STATE('s', 'write m'))")
    names = [column[0] for column in cursor.description or ()]
    assert names[:4] == ["epoch", "written", "token", "text"]
    assert names[4:] in ([], ["watermark", "time"]), "there may have been no watermark yet"
    lines = [
        row[0]
        for row in counting.execute(f"EXPLAIN ALTER JOB j AS {KEYED.format('COUNT(*)')}").fetchall()
    ]
    kept = {line.split(":")[0].strip() for line in lines if line.endswith(": kept")}
    assert {"scan clicks", "write m"} < kept
    rows = [
        row
        for vertex in kept - {"scan clicks", "write m"}
        for row in counting.execute(
            f"SELECT * FROM TABLE(JOB_STATE('j', vertex => '{vertex}'))"
        ).fetchall()
    ]
    of_window = [row for row in rows if 10 in row]
    assert len(of_window) == 2 or 2 in of_window[0], (
        "the window that ends at 10 has two clicks, perhaps not counted yet"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("JOB_STATE('j', 'wriet m')", 'job "j" has no state of a vertex "wriet m"'),
        ("JOB_STATE('k', 'write m')", 'job "k" not found'),
        ("SNAPSHOT_STATE('k', 'write m')", 'snapshot "k" not found'),
        ("JOB_STATE('j')", "JOB_STATE needs the names of a job and of a vertex"),
        ("JOB_STATE('j', 1)", "JOB_STATE needs the names of a job and of a vertex"),
        ("JOB_STATE('j', 'a', 'b')", "JOB_STATE needs the names of a job and of a vertex"),
        ("JOB_STATE('j', job => 'j')", "JOB_STATE needs the names of a job and of a vertex"),
        (
            "SNAPSHOT_STATE(job => 'j', vertex => 'b')",
            "SNAPSHOT_STATE needs the names of a snapshot and of a vertex",
        ),
    ],
)
def test_state_that_cannot_be_read(counting: Connection, call: str, message: str) -> None:
    with pytest.raises(runnel.DatabaseError, match=message) as caught:
        counting.execute(f"SELECT * FROM TABLE({call})")
    assert caught.value.position is not None


def test_rows_that_a_stopped_job_has_not_taken_wait_for_it(connection: Connection) -> None:
    writer = connection.register_stream("s", SCHEMA)
    other = connection.execute("SELECT k FROM s")
    connection.execute("CREATE JOB j AS SINK INTO m SELECT k, v FROM s")
    for round in range(20):
        writer.write([(round * 3, 1)])
        connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
        writer.write([(round * 3 + 1, 1)])
        connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
        writer.write([(round * 3 + 2, 1)])
        connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    assert writer.reader_count == 2
    writer.close()
    connection.job("j").join(PATIENCE)
    assert rows(connection) == [(i, 1) for i in range(60)]
    assert other.fetchall() == [(i,) for i in range(60)]


@pytest.mark.parametrize("end", ["DROP JOB j", "ALTER JOB j AS SINK INTO m SELECT k, v FROM t"])
def test_a_job_that_reads_a_stream_no_more_does_not_hold_back_its_writers(
    connection: Connection, end: str
) -> None:
    writer = connection.register_stream("s", SCHEMA)
    connection.register_stream("t", SCHEMA)
    connection.execute(
        "CREATE JOB j OPTIONS ('processingGuarantee'='none') AS SINK INTO m SELECT k, v FROM s"
    )
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    assert writer.reader_count == 1
    if not end.startswith("DROP"):
        connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    connection.execute(end, timeout=PATIENCE)
    assert writer.reader_count == 0


@pytest.mark.parametrize("end", ["DROP JOB j", None])
def test_what_a_job_that_is_gone_has_staged_is_given_up(tmp_path: Path, end: str | None) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        writer = connection.register_stream("s", SCHEMA)
        connection.execute(
            "CREATE MAPPING f (k BIGINT, v BIGINT) TYPE File "
            f"OPTIONS ('path'='{tmp_path / 'out'}', 'format'='parquet')"
        )
        connection.execute("CREATE JOB j AS INSERT INTO f SELECT k, v FROM s")
        job = connection.job("j")
        writer.write([(1, 1)])
        assert eventually(lambda: job.rows_out == 1)
        connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
        writer.write([(2, 2)])
        assert eventually(lambda: job.rows_out == 2)
        if end is None:
            job.cancel(PATIENCE)
        else:
            connection.execute(end, timeout=PATIENCE)
        assert eventually(
            lambda: (
                not [path for path in (tmp_path / "out").rglob("*") if path.name.startswith(".")]
            )
        )
        assert connection.execute("SELECT * FROM f").fetchall() == [(1, 1)]


def test_changes_of_a_map_are_kept_for_a_stopped_job(connection: Connection) -> None:
    connection.execute(f"CREATE MAPPING a {MAP}")
    connection.execute(
        "CREATE JOB j AS SINK INTO m SELECT __key, this FROM TABLE(CHANGES(TABLE a))"
    )
    job = connection.job("j")
    connection.execute("INSERT INTO a VALUES (1, 1), (2, 2)")
    assert eventually(lambda: job.rows_out == 2)
    connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
    connection.execute("SINK INTO a VALUES (2, 3), (4, 4)")
    connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
    connection.execute("SINK INTO a VALUES (5, 5)")
    connection.execute("ALTER JOB j RESUME", timeout=PATIENCE)
    connection.execute("SINK INTO a VALUES (6, 6)")
    assert eventually(lambda: job.rows_out >= 2)
    connection.execute("CREATE SNAPSHOT s FOR JOB j", timeout=PATIENCE)
    assert eventually(lambda: rows(connection) == [(1, 1), (2, 3), (4, 4), (5, 5), (6, 6)])


def test_changes_that_are_gone_suspend_the_job(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        connection.execute(f"CREATE MAPPING a {MAP}")
        connection.execute(f"CREATE MAPPING m {MAP}")
        connection.execute(
            "CREATE JOB j AS SINK INTO m SELECT __key, this FROM TABLE(CHANGES(TABLE a))"
        )
        connection.execute("INSERT INTO a VALUES (1, 1)")
        assert eventually(lambda: connection.job("j").rows_out == 1)
    with runnel.connect(tmp_path) as connection:
        job = connection.job("j")
        assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
        assert job.error is not None and "are no longer available" in job.error.message


def test_a_source_without_positions_is_not_waited_for_when_its_job_is_stopped(
    connection: Connection,
) -> None:
    connection.execute("CREATE MAPPING d (k BIGINT, v BIGINT) TYPE DuckDB")
    connection.execute("INSERT INTO d SELECT v, v FROM TABLE(GENERATE_SERIES(1, 300000)) AS t(v)")
    connection.execute(
        "CREATE JOB j AS SINK INTO m SELECT a.k % 100, COUNT(*) FROM d AS a "
        "JOIN d AS b ON a.v = b.v GROUP BY 1"
    )
    job = connection.job("j")
    for statement in ("SUSPEND", "RESUME", "RESTART"):
        if not job.is_done:
            with suppress(runnel.OperationalError):  # it may have ended just now
                connection.execute(f"ALTER JOB j {statement}", timeout=PATIENCE)
    job.join(60)
    assert rows(connection) == [(i, 3000) for i in range(100)]
    assert job.error is None


def test_what_no_row_comes_of_moves_the_position_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING m {MAP}")
        options = f"'path'='{tmp_path / 'in'}', 'format'='json', 'follow'='true'"
        connection.execute(f"CREATE MAPPING f (k BIGINT, v BIGINT) TYPE File OPTIONS ({options})")
        connection.execute(
            "CREATE JOB j OPTIONS ('snapshotIntervalMillis'='10') AS SINK INTO m SELECT k, v "
            "FROM f WHERE v > 5"
        )
        job = connection.job("j")
        assert eventually(lambda: job.last_snapshot is not None)
        before = job.last_snapshot
        (tmp_path / "in" / "a.json").write_text('{"k": 1, "v": 1}\n')
        assert eventually(lambda: job.last_snapshot is not before)
