"""An INSERT of Flink over a stream starts a job and returns it; STOP JOB and its savepoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import runnel
from runnel import Connection
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

SCHEMA = {"k": "VARCHAR", "v": "BIGINT", "ts": "TIMESTAMP"}
START = datetime(2030, 1, 1, 12)
ROWS = [("abc"[i % 3], i, START + timedelta(seconds=20 * i)) for i in range(40)]
SINK = "CREATE TABLE {0} ({1}) WITH ('connector' = 'filesystem', 'path' = '{0}', 'format' = 'json')"
COUNTS = (
    "SELECT window_start AS w, k, SUM(v) AS total FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k"
)


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.chdir(tmp_path)
    with runnel.connect() as made:
        made.execute("CREATE TABLE given (k VARCHAR, v BIGINT, ts TIMESTAMP)")
        made.cursor().executemany("INSERT INTO given VALUES (?, ?, ?)", ROWS)
        made.execute(SINK.format("counts", "w TIMESTAMP, k STRING, total BIGINT"))
        made.execute(SINK.format("copied", "k STRING, v BIGINT"))
        yield made


def jobs(con: Connection) -> list[tuple[str, str]]:
    return con.execute("SELECT name, status FROM information_schema.jobs ORDER BY id").fetchall()


def test_an_insert_starts_a_job(con: Connection) -> None:
    writer = con.register_stream("events", SCHEMA, time_column="ts")
    cursor = con.execute("INSERT INTO counts " + COUNTS.format("events"))
    assert [item[0] for item in cursor.description or ()] == ["job_id", "job_name"]
    [(number, name)] = cursor.fetchall()
    assert name == "insert_into_counts_1"
    assert con.job(number).name == name
    writer.write(ROWS)
    writer.close()
    con.job(name).join(PATIENCE)
    expected = con.execute(COUNTS.format("given") + " ORDER BY w, k").fetchall()
    assert len(expected) > 20
    assert con.execute("SELECT * FROM counts ORDER BY w, k").fetchall() == expected
    assert con.execute("INSERT INTO counts " + COUNTS.format("events")).fetchone()[1] == (
        "insert_into_counts_2"
    )


def test_only_a_table_of_flink_starts_jobs(con: Connection) -> None:
    con.register_stream("events", SCHEMA, time_column="ts")
    for statement in (
        "INSERT INTO given SELECT * FROM events",
        "SINK INTO copied SELECT k, v FROM events",
    ):
        with pytest.raises(runnel.NotSupportedError, match="must run as a job"):
            con.execute(statement)
    assert con.execute("INSERT INTO copied SELECT k, v FROM given").rowcount == len(ROWS)
    con.execute("EXPLAIN INSERT INTO copied SELECT k, v FROM events").fetchall()
    with pytest.raises(runnel.ProgrammingError, match="executemany is not for statements"):
        con.cursor().executemany(
            "INSERT INTO copied SELECT k, v FROM events WHERE v > ?", [(1,), (2,)]
        )
    con.execute("BEGIN")
    with pytest.raises(runnel.NotSupportedError, match="transaction"):
        con.execute("INSERT INTO copied SELECT k, v FROM events")
    con.execute("ROLLBACK")
    with pytest.raises(runnel.ProgrammingError, match="nope"):
        con.execute("INSERT INTO copied SELECT k, nope FROM events")
    assert jobs(con) == []


def test_a_table_of_flink_that_is_read(con: Connection, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("a,1\nb,2\n")
    con.execute(
        "CREATE TABLE followed (k STRING, v BIGINT) WITH ('connector' = 'filesystem', "
        "'path' = 'in', 'format' = 'csv', 'source.monitor-interval' = '10 ms')"
    )
    con.execute("CREATE TABLE own (k VARCHAR, v BIGINT)")
    con.execute("INSERT INTO own SELECT k, v FROM followed WHERE v > ?", (1,))
    assert jobs(con) == [("insert_into_own_1", "RUNNING")]
    con.execute("CREATE SNAPSHOT s FOR JOB insert_into_own_1")
    query = "SELECT * FROM own"
    assert eventually(lambda: con.execute(query).fetchall() == [("b", 2)], PATIENCE)


@pytest.mark.parametrize(
    "form", ["EXECUTE STATEMENT SET BEGIN {}END", "BEGIN STATEMENT SET; {}END"]
)
def test_a_statement_set_starts_a_job_for_each_stream(con: Connection, form: str) -> None:
    writer = con.register_stream("events", SCHEMA, time_column="ts")
    con.execute("CREATE TABLE own (v BIGINT)")
    inserts = (
        f"INSERT INTO counts {COUNTS.format('events')}; INSERT INTO own VALUES (7); "
        "INSERT INTO copied SELECT k, v FROM events WHERE v > 35; "
    )
    started = con.execute(form.format(inserts)).fetchall()
    assert [name for _, name in started] == ["insert_into_counts_1", "insert_into_copied_1"]
    writer.write(ROWS)
    writer.close()
    for _, name in started:
        con.job(name).join(PATIENCE)
    for table, query in (("counts", COUNTS), ("copied", "SELECT k, v FROM {} WHERE v > 35")):
        found = con.execute(f"SELECT * FROM {table}").fetchall()
        assert sorted(found) == sorted(con.execute(query.format("given")).fetchall())
    assert con.execute("SELECT * FROM own").fetchall() == [(7,)]


def test_a_statement_set_that_fails_starts_no_job(con: Connection) -> None:
    con.register_stream("events", SCHEMA, time_column="ts")
    con.execute("SET 'execution.savepoint.path' = 'absent'")
    with pytest.raises(runnel.ProgrammingError, match='snapshot "absent" not found'):
        con.execute(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO copied SELECT k, v FROM events; "
            "INSERT INTO copied SELECT k, v + 1 FROM events; END"
        )
    assert jobs(con) == []


def test_a_created_table_is_filled_by_a_job(con: Connection) -> None:
    writer = con.register_stream("events", SCHEMA, time_column="ts")
    con.execute(
        "CREATE TABLE filled WITH ('connector' = 'filesystem', 'path' = 'filled', "
        "'format' = 'json') AS SELECT k, v * 2 AS d FROM events"
    )
    assert jobs(con) == [("insert_into_filled_1", "RUNNING")]
    writer.write(ROWS)
    writer.close()
    con.job("insert_into_filled_1").join(PATIENCE)
    assert sorted(con.execute("SELECT * FROM filled").fetchall()) == sorted(
        (k, 2 * v) for k, v, _ in ROWS
    )


def test_a_savepoint_continues_a_job(con: Connection, tmp_path: Path) -> None:
    """The second job has the open windows of the first one, and reads no row again."""
    (tmp_path / "in").mkdir()
    con.execute(
        "CREATE TABLE followed (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
        "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv', "
        "'source.monitor-interval' = '10 ms')"
    )
    text = "\n".join(f"{k},{v},{ts}" for k, v, ts in ROWS)
    (tmp_path / "in" / "1.csv").write_text(text[: text.index("\n", 400) + 1])
    con.execute("SET 'pipeline.name' = 'counting'")
    [(number, name)] = con.execute("INSERT INTO counts " + COUNTS.format("followed")).fetchall()
    assert name == "counting"
    job = con.job(name)
    assert eventually(lambda: job.rows_in > 10, PATIENCE)
    assert con.execute(f"STOP JOB '{number}' WITH SAVEPOINT").fetchall() == [
        ("savepoint_counting_1",)
    ]
    assert jobs(con) == [("counting", "FAILED")]
    (tmp_path / "in" / "1.csv").write_text(text + "\n")
    con.execute("SET 'execution.savepoint.path' = 'savepoint_counting_1'")
    con.execute("INSERT INTO counts " + COUNTS.format("followed"))
    con.execute("RESET 'execution.savepoint.path'")
    assert jobs(con)[1][0] == "counting_2"
    expected = con.execute(COUNTS.format("given") + " ORDER BY w, k").fetchall()
    con.execute("CREATE VIEW found AS SELECT * FROM counts")

    def complete() -> bool:
        con.execute("CREATE OR REPLACE SNAPSHOT s FOR JOB counting_2")  # which commits the files
        return len(con.execute("SELECT * FROM found").fetchall()) >= len(expected) - 3

    assert eventually(complete, PATIENCE)
    found = con.execute("SELECT * FROM found ORDER BY w, k").fetchall()
    assert found == expected[: len(found)]  # the last window is open
    con.execute("STOP JOB counting_2")
    with pytest.raises(runnel.ProgrammingError, match='job "absent" not found'):
        con.execute("STOP JOB absent")


def test_dml_sync_waits_for_the_end(con: Connection) -> None:
    con.execute(
        "CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '5')"
    )
    con.execute("SET 'table.dml-sync' = 'true'")
    con.execute("INSERT INTO copied SELECT 'x', id FROM made")
    assert con.execute("SELECT v FROM copied ORDER BY v").fetchall() == [(i,) for i in range(1, 6)]
    con.register_stream("events", SCHEMA, time_column="ts")
    with pytest.raises(runnel.OperationalError) as caught:
        con.cursor().execute("INSERT INTO copied SELECT k, v FROM events", timeout=0.2)
    assert caught.value.code is runnel.ErrorCode.TIMEOUT
    assert ("insert_into_copied_1", "RUNNING") in jobs(con)


RunScript = Callable[..., tuple[int, str, str]]
STREAM = (
    "CREATE TABLE gen (id BIGINT) WITH ('connector' = 'datagen');"
    "CREATE TABLE hole (id BIGINT) WITH ('connector' = 'blackhole');"
    "INSERT INTO hole SELECT id FROM gen;"
)


def test_the_shell_names_the_jobs_that_end_with_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from runnel.shell.command import main

    assert main(["-At", "-c", STREAM]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"\d+\|insert_into_hole_1", out.strip().splitlines()[-1])
    assert "job insert_into_hole_1 stops with this session" in err
    assert "SET 'table.dml-sync' = 'true'" in err
    assert main([str(tmp_path / "directory"), "-At", "-q", "-c", STREAM]) == 0
    assert capsys.readouterr().err == ""


def test_a_job_of_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job looks names up in the database of the session that started it, also after the
    directory was opened again, and if tables of these names are in the schema public."""
    monkeypatch.chdir(tmp_path)
    source = "CREATE TABLE {} (v BIGINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', "
    source += "'path' = '{}', 'format' = 'json', 'source.monitor-interval' = '10 ms')"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text('{"v": 1}\n' if name == "one" else '{"v": 9}\n')
    with runnel.connect(tmp_path / "data") as con:
        con.execute(source.format("events", "two"))
        con.execute(SINK.format("copied", "v BIGINT"))
        con.execute("CREATE DATABASE db")
        con.execute("USE db")
        con.execute(source.format("events", "one"))
        sink = SINK.format("copied", "v BIGINT").replace("'path' = 'copied'", "'path' = 'inner'")
        con.execute(sink)
        con.execute(
            "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '20') AS "
            "INSERT INTO copied SELECT v FROM events"
        )
        eventually(lambda: con.execute("SELECT v FROM copied").fetchall() == [(1,)])
    (tmp_path / "one" / "2.json").write_text('{"v": 2}\n')
    with runnel.connect(tmp_path / "data") as con:
        query = "SELECT v FROM db.copied ORDER BY v"
        eventually(lambda: con.execute(query).fetchall() == [(1,), (2,)])
        assert con.execute("SELECT v FROM copied").fetchall() == []
        con.execute("ALTER JOB j RESTART")
        con.execute("ALTER JOB j AS INSERT INTO copied SELECT v + 10 AS v FROM events")
        eventually(lambda: (19,) in con.execute("SELECT v FROM copied").fetchall())
        con.execute("DROP JOB j")


def test_the_interval_of_snapshots(con: Connection) -> None:
    con.register_stream("events", SCHEMA, time_column="ts")
    con.execute("SET execution.checkpointing.interval = 20 ms")
    [(number, name)] = con.execute("INSERT INTO counts " + COUNTS.format("events")).fetchall()
    last = f"SELECT last_snapshot FROM information_schema.jobs WHERE id = {number}"
    eventually(lambda: con.execute(last).fetchone()[0] is not None)
    assert con.job(name).record.options.snapshot_interval == 20
    con.execute(f"DROP JOB {name}")
