"""connect(directory): one owner, and a catalog and maps that are there again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import runnel
from runnel import Connection, ErrorCode
from tests.waiting import eventually

MAP = (
    "(__key BIGINT, name VARCHAR, price DECIMAL(10, 2)) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
)


def fill(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(f"CREATE MAPPING Trades {MAP}")
    cursor.executemany("INSERT INTO trades VALUES (?, ?, ?)", [(i, f"n{i}", i) for i in range(100)])
    cursor.execute(
        "CREATE VIEW cheap (label) AS SELECT name FROM trades WHERE price < 3 ORDER BY name"
    )
    cursor.execute("CREATE TEMP VIEW passing AS SELECT 1 AS one")
    cursor.execute("CREATE INDEX by_name ON trades (name) TYPE HASH")


def test_everything_is_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "dir"
    with runnel.connect(folder) as connection:
        assert repr(connection) == f"<runnel.Connection to {str(folder)!r}>"
        fill(connection)
        connection.execute("UPDATE trades SET price = 0 WHERE __key = 50")
        connection.execute("DELETE FROM trades WHERE __key >= 90")
        before = connection.execute("SELECT * FROM trades ORDER BY __key").fetchall()
    with runnel.connect(str(folder)) as connection:
        cursor = connection.cursor()
        assert cursor.execute("SELECT * FROM trades ORDER BY __key").fetchall() == before
        assert cursor.execute("SELECT name FROM trades WHERE __key = 7").fetchall() == [("n7",)]
        assert cursor.execute("SELECT label FROM cheap").fetchall() == [
            ("n0",),
            ("n1",),
            ("n2",),
            ("n50",),
        ]
        assert [row[0] for row in cursor.execute("SHOW MAPPINGS")] == ["Trades"]
        assert [row[0] for row in cursor.execute("SHOW VIEWS")] == ["cheap"]
        assert cursor.execute("SHOW INDEXES").fetchall() == [("by_name", "Trades", "name", "hash")]
        assert cursor.execute("SELECT price FROM trades WHERE name = 'n8'").fetchall()[0][0] == 8


def test_drops_are_kept_too(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        fill(connection)
        connection.execute("DROP INDEX by_name")
        connection.execute("DROP VIEW cheap")
    with runnel.connect(tmp_path) as connection:
        assert connection.execute("SHOW INDEXES").fetchall() == []
        assert connection.execute("SHOW VIEWS").fetchall() == []
        connection.execute("DROP MAPPING trades")
    with runnel.connect(tmp_path) as connection:
        assert connection.execute("SHOW MAPPINGS").fetchall() == []
        connection.execute(f"CREATE MAPPING again {MAP}")


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with runnel.connect(tmp_path):
        with pytest.raises(runnel.OperationalError) as caught:
            runnel.connect(tmp_path)
        assert caught.value.code is ErrorCode.CONNECTION_PROBLEM
        assert f"process {os.getpid()}" in str(caught.value)
    runnel.connect(tmp_path).close()


OWNER = """
import sys, runnel

connection = runnel.connect(sys.argv[1])
connection.execute(
    "CREATE MAPPING m (__key BIGINT, x BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
)
connection.execute("INSERT INTO m VALUES (1, 2)")
connection.cursor().executemany("INSERT INTO m VALUES (?, ?)", [(i, i) for i in range(10, 20)])
connection.execute("UPDATE m SET x = 5 WHERE __key = 10")
connection.execute("DELETE FROM m WHERE __key = 11")
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_killed_owner_leaves_all_that_was_done(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == "ready\n"
        with pytest.raises(runnel.OperationalError, match="in use by another connection") as caught:
            runnel.connect(tmp_path)
        assert f"process {owner.pid}" in str(caught.value)
        owner.send_signal(signal.SIGKILL)
        owner.wait(30)
    with runnel.connect(tmp_path) as connection:
        rows = connection.execute("SELECT __key, x FROM m ORDER BY __key").fetchall()
        assert rows == [(1, 2), (10, 5), *((i, i) for i in range(12, 20))]


def test_an_unreadable_catalog_is_named(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        fill(connection)
    catalog = tmp_path / "catalog.json"
    text = catalog.read_text()
    for broken in (
        "",
        "{",
        "[]",
        text.replace('"format": ', '"format": 99'),
        text.replace("BIGINT", "BIGGER"),
    ):
        catalog.write_text(broken)
        with pytest.raises(runnel.OperationalError, match="the catalog of directory"):
            runnel.connect(tmp_path)
    catalog.write_text(text)
    runnel.connect(tmp_path).close()


def test_a_catalog_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        fill(connection)
        (tmp_path / ".catalog.json.new").mkdir()
        with pytest.raises(runnel.OperationalError, match="can't be written"):
            connection.execute("CREATE VIEW more AS SELECT 1 AS one")
        assert [row[0] for row in connection.execute("SHOW VIEWS")] == ["cheap", "passing"]
        (tmp_path / ".catalog.json.new").rmdir()
    with runnel.connect(tmp_path) as connection:
        assert [row[0] for row in connection.execute("SHOW VIEWS")] == ["cheap"]


def test_a_mapping_whose_file_is_gone_says_so_when_it_is_used(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("a,b\n1,x\n")
    folder = tmp_path / "db"
    create = f"CREATE MAPPING f TYPE File OPTIONS ('path'='{data}', 'format'='csv')"
    with runnel.connect(folder) as connection:
        connection.execute(create)
        connection.execute("CREATE VIEW v AS SELECT a FROM f")
    data.unlink()
    with runnel.connect(folder) as connection:
        assert [row[0] for row in connection.execute("SHOW MAPPINGS")] == ["f"]
        with pytest.raises(runnel.OperationalError, match="f"):
            connection.execute("SELECT * FROM v").fetchall()
        data.write_text("a,b\n1,x\n")
        connection.execute(create.replace("MAPPING", "OR REPLACE MAPPING"))
        assert connection.execute("SELECT * FROM v").fetchall() == [(1,)]


def test_all_types_of_columns_are_kept(tmp_path: Path) -> None:
    types = "a DECIMAL(20, 4), b TIMESTAMP WITH TIME ZONE, c DOUBLE, d JSON, e VARBINARY, f TIME"
    sql = (
        f"CREATE MAPPING m (__key BIGINT, {types}) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    with runnel.connect(tmp_path) as connection:
        connection.execute(sql)
        before = connection.execute("SHOW MAPPINGS").fetchall()
    assert (
        json.loads((tmp_path / "catalog.json").read_text())["mappings"][0]["options"]["keyFormat"]
        == "bigint"
    )
    with runnel.connect(tmp_path) as connection:
        assert connection.execute("SHOW MAPPINGS").fetchall() == before


def test_a_path_that_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(runnel.OperationalError, match="can't be used"):
        runnel.connect(file)


@pytest.mark.parametrize("becomes", ["removed", "renamed", "replaced"])
def test_a_directory_that_is_gone_is_noticed_by_the_next_write(
    tmp_path: Path, becomes: str
) -> None:
    path, other = tmp_path / "db", tmp_path / "other"
    connection = runnel.connect(path)
    fill(connection)
    connection.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
    connection.execute("INSERT INTO t VALUES (1)")
    before = connection.execute("SELECT COUNT(*) FROM trades").fetchall()
    if becomes == "removed":
        shutil.rmtree(path)
    else:
        path.rename(other)
    if becomes == "replaced":
        runnel.connect(path).close()
    left = set(tmp_path.rglob("*"))
    for sql in (
        "SINK INTO trades VALUES (77, 'x', 7)",
        "SINK INTO trades SELECT v, 'x', v FROM TABLE(GENERATE_SERIES(1, 3)) AS s(v)",
        "DELETE FROM trades",
        "INSERT INTO t VALUES (2)",
        "CREATE VIEW another AS SELECT 1 AS one",
        (
            "CREATE JOB j AS SINK INTO trades SELECT v, 'x', v "
            "FROM TABLE(GENERATE_SERIES(1, 3)) AS s(v)"
        ),
    ):
        with pytest.raises(
            runnel.OperationalError,
            match=f"{path}.* was removed, renamed or replaced while it was open",
        ):
            connection.execute(sql)
    assert connection.execute("SELECT COUNT(*) FROM trades").fetchall() == before
    assert set(tmp_path.rglob("*")) == left
    connection.close()
    if other.exists():
        with runnel.connect(other) as moved:
            assert moved.execute("SELECT COUNT(*) FROM trades").fetchall() == before


def test_what_a_table_file_became_is_noticed(tmp_path: Path) -> None:
    connection = runnel.connect(tmp_path)
    fill(connection)
    (log,) = (tmp_path / "maps" / "trades").glob("log-*")
    log.unlink()
    with pytest.raises(runnel.OperationalError, match=f"the file {log} was removed"):
        connection.execute("SINK INTO trades VALUES (77, 'x', 7)")
    connection.close()


def test_a_job_whose_snapshots_are_gone_is_suspended(tmp_path: Path) -> None:
    create = (
        "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce', "
        "'snapshotIntervalMillis' = '10') AS "
        "SINK INTO trades SELECT v, 'x', v FROM TABLE(GENERATE_STREAM(1000))"
    )
    with runnel.connect(tmp_path) as connection:
        fill(connection)
        connection.execute(create)
        job = connection.job("j")
        assert eventually(lambda: job.record.snapshot is not None)
    (place,) = (tmp_path / "jobs").glob("*/snapshots")
    kept = place.rename(tmp_path / "kept")
    for _ in range(2):
        with runnel.connect(tmp_path) as connection:
            job = connection.job("j")
            assert job.status is runnel.JobStatus.SUSPENDED
            assert job.error is not None
            assert "is missing" in job.error.message
            assert str(place) in str(job.error.detail)
            with pytest.raises(
                runnel.OperationalError,
                match="to begin from nothing, DROP JOB and CREATE JOB again",
            ):
                connection.execute("ALTER JOB j RESUME")
    kept.rename(place)
    with runnel.connect(tmp_path) as connection:
        connection.execute("ALTER JOB j RESUME")
        assert connection.job("j").status is runnel.JobStatus.RUNNING
        connection.execute("DROP JOB j")
        connection.execute(create)
        assert connection.job("j").status is runnel.JobStatus.RUNNING


def test_a_record_nested_deeply_leaves_the_other_jobs_alone(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        fill(connection)
        for name in ("a", "b"):
            connection.execute(
                f"CREATE JOB {name} AS SINK INTO trades SELECT v, 'x', v "
                "FROM TABLE(GENERATE_STREAM(1))"
            )
        number = connection.job("a").id
    record = tmp_path / "jobs" / str(number) / "job.json"
    record.write_text('{"name": "a", "format": 1, "arguments": ' + "[" * 100_000)
    with runnel.connect(tmp_path) as connection:
        found = {
            row[1]: (row[2], row[-1]) for row in connection.execute("SHOW JOBS FULL").fetchall()
        }
        assert found["b"] == ("RUNNING", None)
        assert found["a"][0] == "UNREADABLE"
        assert "nested too deeply" in found["a"][1]
        with pytest.raises(runnel.OperationalError, match="its record can't be read"):
            connection.job("a")


def test_files_without_checksums_are_still_read(tmp_path: Path) -> None:
    with runnel.connect(tmp_path) as connection:
        fill(connection)
        connection.execute(
            "CREATE JOB j AS SINK INTO trades SELECT v, 'x', v FROM TABLE(GENERATE_STREAM(1))"
        )
    for file in (tmp_path / "catalog.json", *tmp_path.glob("jobs/*/job.json")):
        content = json.loads(file.read_text())
        del content["checksum"]
        content["format"] = 1
        content.pop("snapshot", None)
        file.write_text(json.dumps(content))
    with runnel.connect(tmp_path) as connection:
        assert connection.job("j").status is runnel.JobStatus.RUNNING
        assert connection.execute("SELECT COUNT(*) FROM cheap").fetchall() == [(3,)]
