"""BACKUP TO: a consistent copy of a directory, or an error that leaves nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Thread

import pytest

import runnel
from runnel.connectors.imap.storage import durable
from runnel.serving.command import main
from runnel.session import backup as backups
from runnel.session.directory_version import read_record
from runnel.storage import directory_cut
from runnel.storage.directory_cut import DirectoryCut
from tests.dbapi.connection import test_flipped_bits
from tests.jobs.named import PATIENCE
from tests.waiting import eventually

MAP = (
    "CREATE MAPPING {} (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[runnel.Connection]:
    """A connection to the directory "db" with a map, a DuckDB table, a view and an index."""
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(MAP.format("m"))
        connection.execute("CREATE MAPPING d (a BIGINT, b VARCHAR) TYPE DuckDB")
        connection.execute("CREATE VIEW v AS SELECT SUM(this) AS total FROM m")
        connection.execute("CREATE INDEX i ON m (this)")
        connection.execute("INSERT INTO m SELECT v, v FROM TABLE(GENERATE_SERIES(1, 50)) AS t(v)")
        connection.execute("INSERT INTO d SELECT v, 'x' FROM TABLE(GENERATE_SERIES(1, 9)) AS t(v)")
        yield connection


def rows(connection: runnel.Connection, query: str) -> list[tuple[object, ...]]:
    return connection.execute(query).fetchall()


def content(path: Path) -> list[object]:
    with runnel.connect(path) as connection:
        return [
            rows(connection, query)
            for query in (
                "SELECT * FROM m ORDER BY 1",
                "SELECT * FROM d ORDER BY 1",
                "SELECT * FROM v",
                "SHOW MAPPINGS",
                "SHOW INDEXES",
            )
        ]


def files(path: Path) -> Mapping[str, bytes]:
    return {
        str(item.relative_to(path)): item.read_bytes()
        for item in path.rglob("*")
        if item.is_file() and item.name != "lock" and "temp" not in item.parts
    }


def refused(connection: runnel.Connection, target: object, match: str) -> runnel.Error:
    """The error of a backup; the directory and its surroundings are unchanged."""
    root = Path(connection._database.directory.path).parent  # type: ignore[attr-defined]
    before = files(root)
    with pytest.raises(runnel.Error, match=match) as caught:
        connection.execute(f"BACKUP TO '{target}'")
    assert files(root) == before
    assert not list(root.rglob("*.unfinished-*"))
    assert caught.value.hint
    return caught.value


# Content


def test_a_backup_is_opened_like_any_directory(
    tmp_path: Path, connection: runnel.Connection
) -> None:
    result = connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert [column[0] for column in result.description or ()] == [
        "path",
        "files",
        "bytes",
        "paused_millis",
    ]
    [(path, count, size, paused)] = result.fetchall()
    found = files(tmp_path / "copy")
    assert path == str(tmp_path / "copy")
    assert (count, size) == (len(found), sum(map(len, found.values())))
    assert 0 < paused < 10_000
    assert set(found) == {
        "directory.json",
        "catalog.json",
        "tables.duckdb",
        "maps/m/current",
        "maps/m/log-00000000",
    }
    assert all(
        item.stat().st_mode & 0o777 == 0o700
        for item in (tmp_path / "copy", tmp_path / "copy/maps", tmp_path / "copy/maps/m")
    )
    record = read_record(tmp_path / "copy")
    assert record.origin is not None and record.origin.path == str(tmp_path / "db")
    restored = content(tmp_path / "copy")
    connection.close()
    assert restored == content(tmp_path / "db")


def test_original_and_copy_do_not_share_changes(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are linked, but none of them is changed in place, also not by checkpoints."""
    monkeypatch.setattr(durable, "LEAST_LOG", 100)
    connection.close()
    connection = runnel.connect(tmp_path / "db")
    connection.execute(f"BACKUP TO '{tmp_path}/first'")
    before = files(tmp_path / "first")
    connection.execute("DELETE FROM m WHERE __key < 40")
    connection.execute("INSERT INTO m VALUES (100, 100)")
    connection.execute("DELETE FROM d WHERE a < 5")
    connection.execute("DROP VIEW v")
    connection.close()  # writes a checkpoint
    assert files(tmp_path / "first") == before
    expected = files(tmp_path / "db")
    with runnel.connect(tmp_path / "first") as copy:
        copy.execute("DELETE FROM m WHERE __key > 7")
        copy.execute("DELETE FROM d WHERE a > 1")
        copy.execute("DROP VIEW v")
    assert files(tmp_path / "db") == expected
    with runnel.connect(tmp_path / "db") as again:
        assert rows(again, "SELECT COUNT(*), SUM(this) FROM m") == [(12, 595)]
        assert rows(again, "SELECT COUNT(*) FROM d") == [(5,)]


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["opened", "read"])
def test_another_disk_has_copies_instead_of_links(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    def across_disks(self: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    connection.close()  # writes a checkpoint
    connection = runnel.connect(tmp_path / "db")
    monkeypatch.setattr(Path, "hardlink_to", across_disks)
    monkeypatch.setattr(directory_cut, "SMALL", small)
    monkeypatch.setattr(directory_cut, "CHUNK", 7)
    connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert all(item.stat().st_nlink == 1 for item in (tmp_path / "copy").rglob("*.json"))
    restored = content(tmp_path / "copy")
    connection.close()
    assert restored == content(tmp_path / "db")


def test_each_kind_of_file_is_copied(tmp_path: Path) -> None:
    """Fails if a directory has a new kind of file that `CONTENT` does not list."""
    db, copy = tmp_path / "db", tmp_path / "copy"
    test_flipped_bits.made(db)
    with runnel.connect(db) as connection:
        connection.execute(f"BACKUP TO '{copy}'")
        assert set(files(copy)) == set(files(db))
    kinds = {name.split("/")[0] for name in files(copy)}
    # `catalog.next` exists only during a COMMIT.
    assert kinds == {"directory.json", *backups.CONTENT} - {"catalog.next"}
    assert test_flipped_bits.content(copy) == test_flipped_bits.content(db)


def test_files_without_a_final_name_are_left_out(
    tmp_path: Path, connection: runnel.Connection
) -> None:
    db = tmp_path / "db"
    for name in (
        "maps/m/.checkpoint-00000001",
        "maps/.n/current",
        "jobs/7/.job.json.new",
        "jobs/7/snapshots/.3/state.arrows",
        "snapshots/.1/1/manifest.json",
        ".catalog.json.new",
        "token",
        "user-token",
        "temp/x",
        "notes.txt",
    ):
        (db / name).parent.mkdir(parents=True, exist_ok=True)
        (db / name).write_text("x")
    # Spark's checkpoints have files whose names begin with a dot.
    (db / "jobs/7/runtime/commits").mkdir(parents=True)
    (db / "jobs/7/runtime/commits/.0.crc").write_text("x")
    connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert set(files(tmp_path / "copy")) == {
        "directory.json",
        "catalog.json",
        "tables.duckdb",
        "maps/m/current",
        "maps/m/log-00000000",
        "jobs/7/runtime/commits/.0.crc",
    }


def test_an_empty_folder_and_a_relative_path_are_targets(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    connection.execute(f"BACKUP TO '{tmp_path}/empty'")
    assert read_record(tmp_path / "empty").origin is not None
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    connection.execute(f"BACKUP TO '{tmp_path}/link'")
    assert read_record(tmp_path / "elsewhere").origin is not None
    monkeypatch.chdir(tmp_path)
    connection.execute("BACKUP TO 'relative'")
    assert content(tmp_path / "relative") == content(tmp_path / "empty")


def test_a_directory_without_content(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(f"BACKUP TO '{tmp_path}/copy'")
        assert set(files(tmp_path / "copy")) == {"directory.json", "catalog.json"}
        connection.execute("CREATE MAPPING d (a BIGINT) TYPE DuckDB")
        connection.execute(f"BACKUP TO '{tmp_path}/tables'")
    with runnel.connect(tmp_path / "tables") as connection:
        assert rows(connection, "SELECT * FROM d") == []


# Consistency


def test_a_backup_has_a_prefix_of_the_writes(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client writes each number to three maps and a table, one after the other. Every backup has
    all writes up to some write, and none after it, also if the listing of the files is slow."""
    monkeypatch.setattr(durable, "LEAST_LOG", 1000)
    add_file = DirectoryCut._add_file

    def slowly(self: DirectoryCut, name: str, *, may_link: bool) -> None:
        add_file(self, name, may_link=may_link)
        before = written[0]
        eventually(lambda: written[0] > before + 1, 0.01)

    names = ("first", "table", "second", "third")
    for name in ("first", "second", "third"):
        connection.execute(MAP.format(name))
    connection.execute('CREATE MAPPING "table" (a BIGINT, b BIGINT) TYPE DuckDB')
    stop, written = Event(), [0]

    def write() -> None:
        while not stop.is_set():
            written[0] += 1
            for name in names:
                connection.execute(f'INSERT INTO "{name}" VALUES (?, ?)', (written[0], written[0]))

    writer = Thread(target=write)
    writer.start()
    targets = [tmp_path / f"copy-{i}" for i in range(5)]
    try:
        for number, target in enumerate(targets):
            if number == 3:
                monkeypatch.setattr(DirectoryCut, "_add_file", slowly)
            enough = written[0] + 3
            assert eventually(lambda enough=enough: written[0] >= enough)
            connection.execute(f"BACKUP TO '{target}'")
    finally:
        stop.set()
        writer.join()
    for target in targets:
        with runnel.connect(target) as copy:
            found = [
                rows(copy, f'SELECT COUNT(*), COALESCE(MAX({key}), 0) FROM "{name}"')[0]
                for name, key in zip(names, ("__key", "a", "__key", "__key"), strict=True)
            ]
        counts = [count for count, _ in found]
        assert found == [(count, count) for count in counts], "a number is missing"
        assert counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1, counts


def test_two_backups_at_a_time(tmp_path: Path, connection: runnel.Connection) -> None:
    targets = [tmp_path / f"copy-{i}" for i in range(4)]
    threads = [
        Thread(target=lambda target=target: connection.execute(f"BACKUP TO '{target}'"))
        for target in targets
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [content(target) for target in targets]
    assert found == [found[0]] * 4


def test_tables_that_are_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        gate = backups.durable_writes.closed

        def create_first() -> object:
            monkeypatch.setattr(backups.durable_writes, "closed", gate)
            connection.execute("CREATE MAPPING d (a BIGINT) TYPE DuckDB")
            connection.execute("INSERT INTO d VALUES (1)")
            return gate()

        monkeypatch.setattr(backups.durable_writes, "closed", create_first)
        connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    with runnel.connect(tmp_path / "copy") as connection:
        assert rows(connection, "SELECT * FROM d") == [(1,)]


# Refusals and failures


def test_a_connection_in_memory_is_refused() -> None:
    with runnel.connect() as connection:
        with pytest.raises(runnel.NotSupportedError, match="in memory") as caught:
            connection.execute("BACKUP TO '/tmp/never'")
        assert "connect to a directory" in str(caught.value)
    assert not Path("/tmp/never").exists()


@pytest.mark.parametrize(
    "target",
    ["{0}/db", "{0}/db/inside", "{0}/db/../db/x", "{0}/link", "{0}/link/x"],
)
def test_a_target_in_the_directory_is_refused(
    tmp_path: Path, connection: runnel.Connection, target: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "db")
    error = refused(connection, target.format(tmp_path), "in the directory itself")
    assert error.position is not None and error.position.column == 11


def test_targets_that_cannot_be_written_are_refused(
    tmp_path: Path, connection: runnel.Connection
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for target, detail in (
        (tmp_path / "full", "not an empty folder"),
        (tmp_path / "full" / "file", "not an empty folder"),
        (tmp_path, "not an empty folder"),
        (tmp_path / "no" / "copy", "parent folder does not exist"),
        (tmp_path / "full" / "file" / "copy", "parent folder does not exist"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        error = refused(connection, target, "can't be written")
        assert error.code is runnel.ErrorCode.INPUT_OUTPUT
        assert error.detail is not None and detail in error.detail
    for target in ("", "s3://bucket/copy", "file:///tmp/copy"):
        refused(connection, target, "can't be the folder of a backup")


def test_a_folder_without_the_right_to_write_is_refused(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(self: Path, *args: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", read_only)
    error = refused(connection, tmp_path / "copy", "can't be written")
    assert error.detail == os.strerror(errno.EROFS)


def failing(number: int) -> Callable[..., None]:
    def fail(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("owner", "step", "number", "hint"),
    [
        (directory_cut, "sync_file", errno.ENOSPC, "make room on the disk"),
        (directory_cut, "own_file", errno.EDQUOT, "make room on the disk"),
        (directory_cut, "sync_folder", errno.EIO, "name a new folder"),
        (DirectoryCut, "add", errno.EMFILE, "ulimit"),
        (backups, "write_record", errno.ENOSPC, "make room on the disk"),
        (Path, "rename", errno.ENOTEMPTY, "name a new folder"),
    ],
    ids=["full", "quota", "faulty", "too many files", "record", "name"],
)
def test_a_failure_leaves_nothing_behind(
    tmp_path: Path,
    connection: runnel.Connection,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    step: str,
    number: int,
    hint: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, failing(number))
        error = refused(connection, tmp_path / "copy", "can't be written")
    assert error.detail == os.strerror(number) and error.hint is not None and hint in error.hint
    connection.execute("INSERT INTO m VALUES (1000, 1)")  # writes go on
    connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    assert content(tmp_path / "copy")[2] == [(1276,)]


FULL_DISK = """
import resource, signal, sys
import runnel

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = sys.argv[1]
with runnel.connect(folder + "/db") as connection:
    before = connection.execute("SELECT COUNT(*) FROM d").fetchall()
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        connection.execute(f"BACKUP TO '{folder}/copy'")
    except runnel.OperationalError as error:
        print(error.detail)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert connection.execute("SELECT COUNT(*) FROM d").fetchall() == before
    connection.execute("INSERT INTO d VALUES (1, 'later')")
    connection.execute(f"BACKUP TO '{folder}/copy'")
"""


def test_duckdb_runs_out_of_room(tmp_path: Path, connection: runnel.Connection) -> None:
    connection.execute(
        "INSERT INTO d SELECT v, CAST(RAND() AS VARCHAR) "
        "FROM TABLE(GENERATE_SERIES(1, 30000)) AS t(v)"
    )
    connection.close()
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip(), "the backup did not fail"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["copy", "db"]
    with runnel.connect(tmp_path / "copy") as copy:
        assert rows(copy, "SELECT COUNT(*) FROM d") == [(30010,)]


@pytest.mark.parametrize("ends", ["cancelled", "timed out"])
def test_a_backup_ends_with_its_statement(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    cursor = connection.cursor()
    write = DirectoryCut.write

    def slow(self: DirectoryCut, on_bytes: Callable[[int], None]) -> None:
        if ends == "cancelled":
            cursor.cancel()
        else:
            backups.current().deadline = 0  # type: ignore[misc]
        write(self, on_bytes)

    monkeypatch.setattr(DirectoryCut, "write", slow)
    with pytest.raises(runnel.OperationalError, match=ends) as caught:
        cursor.execute(f"BACKUP TO '{tmp_path}/copy'", timeout=PATIENCE)
    assert caught.value.code in (runnel.ErrorCode.CANCELLED, runnel.ErrorCode.TIMEOUT)
    assert [item.name for item in tmp_path.iterdir()] == ["db"]
    assert rows(connection, "SELECT COUNT(*) FROM m") == [(50,)]


def test_a_caller_with_bounds_is_refused(tmp_path: Path) -> None:
    """A copy within the bounds would be readable, with the passwords in the catalog."""
    (tmp_path / "files").mkdir()
    with runnel.connect(tmp_path / "db", allowed_paths=[tmp_path / "files"]) as connection:
        for target in (tmp_path / "files" / "copy", tmp_path / "copy"):
            error = refused(connection, target, "without bounds")
            assert error.code is runnel.ErrorCode.NOT_ALLOWED


def test_a_removed_directory_is_refused(tmp_path: Path, connection: runnel.Connection) -> None:
    (tmp_path / "db").rename(tmp_path / "moved")
    try:
        with pytest.raises(runnel.OperationalError, match="was removed, renamed"):
            connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    finally:
        (tmp_path / "moved").rename(tmp_path / "db")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("BACKUP", "TO"),
        ("BACKUP TO", "a folder in quotes"),
        ("BACKUP TO folder", "a folder in quotes"),
        ("BACKUP TO ?", "a folder in quotes"),
        ("BACKUP 'x'", "TO"),
        ("BACKUP TO 'x' 'y'", "syntax error"),
        ("EXPLAIN BACKUP TO 'x'", "EXPLAIN BACKUP is not supported"),
    ],
)
def test_wrong_statements(connection: runnel.Connection, text: str, match: str) -> None:
    with pytest.raises(runnel.Error, match=match):
        connection.execute(text)


# Restored copies, and the command


def test_progress_is_that_of_the_copied_bytes(
    tmp_path: Path, connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_cut, "SMALL", 0)
    monkeypatch.setattr(directory_cut, "CHUNK", 100)
    monkeypatch.setattr(backups, "REPORTED", 0.0)
    cursor, write = connection.cursor(), DirectoryCut.write
    found = []

    def watched(self: DirectoryCut, on_bytes: Callable[[int], None]) -> None:
        def look(size: int) -> None:
            on_bytes(size)
            found.append(cursor.progress())

        write(self, look)

    monkeypatch.setattr(DirectoryCut, "write", watched)
    cursor.execute(f"BACKUP TO '{tmp_path}/copy'")
    steps = [item.steps[0] for item in found if item is not None]
    done = [step.bytes_done for step in steps]
    assert done == sorted(set(done)) and len(done) > 3
    assert {step.bytes for step in steps} == {done[-1]}
    assert str(found[-1]).endswith(f"  backup: {done[-1]:,} of {done[-1]:,} bytes")
    assert cursor.progress() is None


JOB = (
    "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '10') AS "
    "SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(100)) AS t(v)"
)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [item.message for item in caplog.records if item.name == "runnel.backup"]


def test_two_copies_of_a_job_are_noticed(
    tmp_path: Path, connection: runnel.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute(f"BACKUP TO '{tmp_path}/without'")
    connection.execute(JOB)
    connection.execute(f"BACKUP TO '{tmp_path}/copy'")
    caplog.clear()
    runnel.connect(tmp_path / "without").close()
    assert warnings(caplog) == []
    with runnel.connect(tmp_path / "copy") as copy:
        assert copy.job("j").id == connection.job("j").id
    [message] = warnings(caplog)
    assert str(tmp_path / "db") in message and "same jobs" in message
    connection.close()
    caplog.clear()
    runnel.connect(tmp_path / "copy").close()
    (tmp_path / "db").rename(tmp_path / "old")
    (tmp_path / "copy").rename(tmp_path / "db")
    with runnel.connect(tmp_path / "db") as restored:
        assert restored.job("j").status is runnel.JobStatus.RUNNING
    assert warnings(caplog) == []


def test_a_backup_of_a_backup(tmp_path: Path, connection: runnel.Connection) -> None:
    connection.execute(f"BACKUP TO '{tmp_path}/one'")
    with runnel.connect(tmp_path / "one") as copy:
        copy.execute(f"BACKUP TO '{tmp_path}/two'")
    assert content(tmp_path / "two") == content(tmp_path / "one")
    record = read_record(tmp_path / "two")
    assert record.origin is not None and record.origin.path == str(tmp_path / "one")


def test_the_command_copies_a_closed_directory(
    tmp_path: Path, connection: runnel.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    db, copy = str(tmp_path / "db"), str(tmp_path / "copy")
    assert main(["backup", db, copy]) == 1
    assert "in use by another connection" in capsys.readouterr().err
    connection.close()
    before = files(tmp_path / "db")
    assert main(["backup", db, copy]) == 0
    found = files(tmp_path / "copy")
    assert capsys.readouterr().out == (
        f"{copy}: {len(found)} files, {sum(map(len, found.values()))} bytes\n"
    )
    assert (tmp_path / "db" / "tables.duckdb").stat().st_nlink == 1
    assert files(tmp_path / "db") == before
    assert content(tmp_path / "copy") == content(tmp_path / "db")
    for arguments, match in (
        ([db, copy], "not an empty folder"),
        ([str(tmp_path / "no"), str(tmp_path / "x")], "does not exist"),
        ([db, str(tmp_path / "db" / "x")], "in the directory itself"),
    ):
        assert main(["backup", *arguments]) == 1
        assert match in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_the_command_does_not_upgrade(tmp_path: Path, connection: runnel.Connection) -> None:
    """So that an earlier Runnel can open the copy after the directory was upgraded."""
    connection.close()
    (tmp_path / "db" / "directory.json").unlink()
    assert main(["backup", str(tmp_path / "db"), str(tmp_path / "copy")]) == 0
    for path in (tmp_path / "db", tmp_path / "copy"):
        assert read_record(path).version == 1
    assert content(tmp_path / "copy") == content(tmp_path / "db")


def test_the_command_copies_the_log_of_a_killed_duckdb(tmp_path: Path) -> None:
    code = (
        "import os, sys, runnel\n"
        "connection = runnel.connect(sys.argv[1])\n"
        "connection.execute('CREATE MAPPING d (a BIGINT) TYPE DuckDB')\n"
        "connection.execute('INSERT INTO d VALUES (1)')\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "db")], check=True)
    assert (tmp_path / "db" / "tables.duckdb.wal").exists()
    assert main(["backup", str(tmp_path / "db"), str(tmp_path / "copy")]) == 0
    with runnel.connect(tmp_path / "copy") as copy:
        assert rows(copy, "SELECT * FROM d") == [(1,)]
