"""Attacks of a client with the users' token: what its statements must not reach, however they name
it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import runnel
from runnel.errors import ErrorCode
from tests.serving.bounds.doors import Doors, doors

SECRET = "nobody may read this"
MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)
LINES = "OPTIONS ('format' = 'lines', 'path' = '{}')"


class Place:
    """The folders of a test: `kept` is served, `data` a root, `outside` is neither."""

    def __init__(self, folder: Path) -> None:
        self.kept, self.data, self.outside = (folder / name for name in ("kept", "data", "outside"))
        for made in (self.kept, self.data, self.outside):
            made.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        (self.kept / "token").write_text(SECRET)
        (self.data / "own.txt").write_text("open\n")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def opened(place: Place) -> Iterator[Doors]:
    with doors(place.kept, place.data) as made:
        yield made


def refused(connection: runnel.Connection, statement: str) -> runnel.Error:
    """The error with which a statement is refused for its bounds."""
    with pytest.raises(runnel.ProgrammingError) as caught:
        connection.execute(statement).fetchall()
    assert caught.value.code is ErrorCode.NOT_ALLOWED, caught.value
    assert SECRET not in str(caught.value)
    return caught.value


WAYS = [
    "SELECT * FROM TABLE(LINES_FILE('{}'))",
    "SELECT * FROM TABLE(CSV_FILE('{}', header => false))",
    "CREATE MAPPING stolen TYPE File OPTIONS ('format' = 'lines', 'path' = '{}')",
    (
        "CREATE MAPPING stolen (line VARCHAR) TYPE File "
        "OPTIONS ('format' = 'lines', 'path' = '{}', 'follow' = 'true')"
    ),
    (
        "CREATE MAPPING stolen (line VARCHAR) TYPE File "
        "OPTIONS ('format' = 'lines', 'path' = '{}', 'partitionBy' = 'x')"
    ),
    "CREATE VIEW stolen AS SELECT * FROM TABLE(LINES_FILE('{}'))",
    "EXPLAIN SELECT * FROM TABLE(LINES_FILE('{}'))",
    "FROM '{}'",
    "CREATE VIEW stolen AS FROM '{}'",
]
NAMED = [
    "{place.outside}/secret.txt",
    "{place.data}/../outside/secret.txt",
    "{place.data}/link.txt",
    "{place.data}/folder/secret.txt",
    "{place.outside}/*.txt",
    "{place.data}/*/../../outside/*.txt",
    "file://{place.outside}/secret.txt",
    "local://{place.outside}/secret.txt",
    "{place.kept}/token",
    "{place.kept}",
    "{place.data}/kept/token",
    "/proc/self/environ",
    "/dev/zero",
    "http://127.0.0.1:1/x.txt",
    "HTTP://127.0.0.1:1/x.txt",
    "memory://x.txt",
    "simplecache::file://{place.outside}/secret.txt",
    "zip://secret.txt::file://{place.outside}/x.zip",
    "reference://",
    "github://a:b@c/x.txt",
]


def test_nothing_outside_is_read(place: Place, opened: Doors) -> None:
    (place.data / "link.txt").symlink_to(place.outside / "secret.txt")
    (place.data / "folder").symlink_to(place.outside)
    (place.data / "kept").symlink_to(place.kept)
    for named in NAMED:
        for way in WAYS:
            refused(opened.user, way.format(named.format(place=place)))
    assert opened.user.execute(
        f"SELECT * FROM TABLE(LINES_FILE('{place.data}/own.txt'))"
    ).fetchall() == [("open",)]


def test_the_short_forms_keep_within_bounds_too(place: Place, opened: Doors) -> None:
    (place.outside / "f.csv").write_text("a\n1\n")
    (place.data / "f.csv").write_text("a\n1\n")
    for form in ("SELECT * FROM '{}'", "SELECT * FROM read_csv('{}')"):
        for folder in (place.outside, place.data):
            statement = form.format(folder / "f.csv")
            try:
                opened.owner.execute(statement).fetchall()
            except runnel.Error:
                continue  # there is no such form
            if folder is place.data:
                opened.user.execute(statement).fetchall()
            else:
                refused(opened.user, statement)


def test_what_is_no_regular_file_is_not_opened(place: Place, opened: Doors) -> None:
    os.mkfifo(place.data / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as made:
        with contextlib.chdir(place.data):  # the address of a socket is short
            made.bind("socket.txt")
        for name in ("pipe.txt", "socket.txt"):
            assert "no regular file" in str(refused(opened.user, WAYS[0].format(place.data / name)))


def test_errors_are_the_same_whatever_is_there(place: Place, opened: Doors) -> None:
    there = refused(opened.user, WAYS[0].format(place.outside / "secret.txt"))
    missing = refused(opened.user, WAYS[0].format(place.outside / "secrep.txt"))
    assert str(there).replace("secret", "secrep").splitlines()[0] == str(missing).splitlines()[0]
    assert there.hint == missing.hint
    (place.outside.parent / "datum").mkdir()
    place.data.rename(
        place.outside.parent / "date"
    )  # of a root that is gone the neighbours aren't named
    with pytest.raises(runnel.OperationalError) as caught:
        opened.user.execute(WAYS[0].format(place.data))
    assert "datum" not in str(caught.value)
    assert "outside" not in str(caught.value)


def test_globs_do_not_follow_links_out_of_a_root(place: Place, opened: Doors) -> None:
    (place.data / "more").symlink_to(place.outside)
    assert opened.user.execute(WAYS[0].format(f"{place.data}/*.txt")).fetchall() == [("open",)]
    refused(opened.user, WAYS[0].format(f"{place.data}/*/*.txt"))
    (place.data / "linked.txt").symlink_to(place.outside / "secret.txt")
    refused(opened.user, WAYS[0].format(f"{place.data}/*.txt"))
    refused(opened.user, WAYS[0].format(place.data))


def test_a_file_that_becomes_a_link_is_not_read(place: Place, opened: Doors) -> None:
    opened.user.execute(
        f"CREATE MAPPING own (line VARCHAR) TYPE File {LINES.format(place.data / 'own.txt')}"
    )
    follow = f"OPTIONS ('format' = 'lines', 'path' = '{place.data}/own.txt', 'follow' = 'true')"
    opened.user.execute(f"CREATE MAPPING followed (line VARCHAR) TYPE File {follow}")
    (place.data / "own.txt").unlink()
    (place.data / "own.txt").symlink_to(place.outside / "secret.txt")
    for caller in (opened.user, opened.owner, opened.served):
        refused(caller, "SELECT line FROM own")
        refused(caller, "SELECT line FROM followed LIMIT 1")


def test_nothing_outside_is_written(place: Place, opened: Doors) -> None:
    (place.data / "out").symlink_to(place.outside)
    before = sorted(place.kept.rglob("*")) + sorted(place.outside.rglob("*"))
    for path in (place.kept / "jobs", place.outside, place.data / "out", place.kept / "x.csv"):
        for more in ("", ", 'partitionBy' = 'a'"):
            options = f"OPTIONS ('format' = 'csv', 'path' = '{path}'{more})"
            refused(opened.user, f"CREATE MAPPING target (a BIGINT, b BIGINT) TYPE File {options}")
    assert sorted(place.kept.rglob("*")) + sorted(place.outside.rglob("*")) == before


def test_a_folder_that_becomes_a_link_is_not_written(place: Place, opened: Doors) -> None:
    (place.data / "out").mkdir()
    options = f"OPTIONS ('format' = 'csv', 'path' = '{place.data}/out')"
    opened.user.execute(f"CREATE MAPPING target (a BIGINT) TYPE File {options}")
    opened.user.execute("INSERT INTO target VALUES (1)")
    assert opened.user.execute("SELECT a FROM target").fetchall() == [(1,)]
    (place.data / "out").rename(place.data / "was")
    (place.data / "out").symlink_to(place.outside)
    refused(opened.user, "INSERT INTO target VALUES (2)")
    refused(opened.owner, "INSERT INTO target VALUES (2)")
    assert [item.name for item in place.outside.iterdir()] == ["secret.txt"]


def test_no_code_that_a_client_wrote_is_run(place: Place, opened: Doors) -> None:
    user = opened.user
    options = f"OPTIONS ('format' = 'lines', 'path' = '{place.data}/evil.py')"
    user.execute(f"CREATE MAPPING code (line VARCHAR) TYPE File {options}")
    user.execute("INSERT INTO code VALUES (?)", (f"open({str(place.data / 'ran')!r}, 'w')",))
    written = next(iter(place.data.rglob("*.txt")), place.data / "evil.py")
    user.execute(MAP)
    for module in (place.data / "evil.py", written, "evil", "../data/evil"):
        statement = (
            f"CREATE JOB j OPTIONS ('modules' = '{module}') AS SINK INTO m SELECT v, v "
            "FROM TABLE(GENERATE_STREAM(1))"
        )
        refused(user, statement)
    assert not (place.data / "ran").exists()


MODULE = """
def register(connection):
    connection.create_function("twice", lambda column: column, ["BIGINT"], "BIGINT")
"""
JOB = (
    "CREATE JOB j OPTIONS ('modules' = '{}') AS SINK INTO m SELECT v, v "
    "FROM TABLE(GENERATE_SERIES(1, 3)) AS t(v)"
)


def test_modules_of_the_owners_folder_go_by_name_and_unchanged(
    place: Place, tmp_path: Path
) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "good.py").write_text(MODULE)
    with doors(place.kept, place.data, modules=folder) as opened:
        opened.user.execute(MAP)
        opened.user.execute(JOB.format("good"))
        opened.user.execute("DROP JOB j")
        refused(opened.user, JOB.format(folder / "good.py"))
        refused(opened.user, JOB.format("good.py"))
        (folder / "later.py").write_text(MODULE)
        refused(opened.user, JOB.format("later"))
        (folder / "good.py").write_text(MODULE + "\n")
        assert "was changed" in str(refused(opened.user, JOB.format("good")))
        opened.owner.execute(JOB.format(folder / "good.py"))


def test_duckdb_files_keep_within_bounds(place: Place, opened: Doors) -> None:
    for folder in (place.data, place.outside):
        with duckdb.connect(folder / "d.db") as made:
            made.execute(
                "CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS "
                f"FROM read_text('{place.outside}/secret.txt')"
            )
    mapping = (
        "CREATE OR REPLACE MAPPING d TYPE DuckDB OPTIONS ('path' = '{}', 'table' = '{}', "
        "'readOnly' = 'true')"
    )
    opened.user.execute(mapping.format(place.data / "d.db", "t"))
    assert opened.user.execute("SELECT a FROM d").fetchall() == [(1,)]
    refused(opened.user, mapping.format(place.data / "d.db", "v"))
    with duckdb.connect(place.data / "acting.db") as made:
        action = f"INSERT INTO log SELECT content FROM read_text('{place.outside}/secret.txt')"
        made.execute("CREATE TABLE t (a BIGINT); CREATE TABLE log (a VARCHAR)")
        made.execute(f"CREATE TRIGGER acts AFTER INSERT ON t FOR EACH STATEMENT {action}")
    acting = (
        f"CREATE MAPPING acting TYPE DuckDB OPTIONS ('path' = '{place.data}/acting.db', "
        "'table' = 't')"
    )
    assert "triggers" in str(refused(opened.user, acting))
    (place.data / "link.db").symlink_to(place.outside / "d.db")
    for path in (
        place.outside / "d.db",
        place.data / "../outside/d.db",
        place.data / "link.db",
        place.kept / "tables.duckdb",
    ):
        refused(opened.user, mapping.format(path, "t"))
    new = "CREATE MAPPING new (a BIGINT) TYPE DuckDB OPTIONS ('path' = '{}', 'create' = 'true')"
    refused(opened.user, new.format(place.outside / "new.db"))
    assert not (place.outside / "new.db").exists()
    (place.data / "walled.db.wal").symlink_to(place.outside / "d.db")
    refused(opened.user, new.format(place.data / "walled.db"))


def test_a_duckdb_file_can_be_a_root(place: Place) -> None:
    with duckdb.connect(place.data / "d.db") as made:
        made.execute("CREATE TABLE t (a BIGINT)")
    (place.outside / "link.db").symlink_to(place.data / "d.db")
    (place.outside / "link.db.wal").symlink_to(place.outside / "secret.txt")
    mapping = "CREATE OR REPLACE MAPPING d TYPE DuckDB OPTIONS ('path' = '{}', 'table' = 't')"
    with doors(place.kept, place.data / "d.db") as opened:
        for path in (place.outside / "link.db", place.data / "d.db"):
            opened.user.execute(mapping.format(path))
            opened.user.execute("INSERT INTO d VALUES (1)")
        assert opened.user.execute("SELECT a FROM d").fetchall() == [(1,), (1,)]
        refused(opened.user, f"SELECT * FROM TABLE(LINES_FILE('{place.data}/d.db.wal'))")
    (place.data / "d.db.wal").unlink(missing_ok=True)
    (place.data / "d.db.wal").symlink_to(place.outside / "secret.txt")
    with doors(place.kept, place.data / "d.db") as opened:
        refused(opened.user, mapping.format(place.data / "d.db"))
    assert (place.outside / "secret.txt").read_text() == SECRET


REFUSED = [
    "TYPE Iceberg OPTIONS ('table' = 'a.t', 'warehouse' = '{data}', 'create' = 'true')",
    "TYPE Iceberg OPTIONS ('table' = 'a.t', 'catalog.py-io-impl' = 'os.system', 'uri' = 'http://127.0.0.1')",
    "TYPE Spark OPTIONS ('query' = 'SELECT reflect(''java.lang.System'', ''exit'', 1)')",
    "TYPE Spark OPTIONS ('format' = 'csv', 'path' = '{data}/own.txt')",
    "TYPE Spark OPTIONS ('format' = 'jdbc', 'url' = 'jdbc:x', 'dbtable' = 't')",
    "TYPE Kafka OPTIONS ('valueFormat' = 'bigint', 'bootstrap.servers' = '127.0.0.1:1')",
    "TYPE Kafka OPTIONS ('valueFormat' = 'bigint', 'plugin.library.paths' = '{data}/x.so')",
]
"""What a user can't define, within a root or not."""


def test_what_cannot_be_kept_within_bounds_is_refused_by_name(place: Place, opened: Doors) -> None:
    for definition in REFUSED:
        refused(opened.user, "CREATE MAPPING x (this BIGINT) " + definition.format(data=place.data))
    assert sorted(item.name for item in place.data.iterdir()) == ["own.txt"]


def test_a_data_connection_is_the_owners_to_make_and_the_users_to_use(
    place: Place, opened: Doors
) -> None:
    with duckdb.connect(place.outside / "d.db") as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a")
    create = f"CREATE DATA CONNECTION c TYPE DuckDB OPTIONS ('path' = '{place.outside}/d.db')"
    refused(opened.user, create)
    opened.owner.execute(create)
    opened.user.execute("CREATE MAPPING d DATA CONNECTION c OPTIONS ('table' = 't')")
    assert opened.user.execute("SELECT a FROM d").fetchall() == [(1,)]
    refused(opened.user, create.replace("CREATE", "CREATE OR REPLACE", 1))
    refused(opened.user, "DROP DATA CONNECTION c")


def test_spark_is_not_started_without_the_owners_word(place: Place, opened: Doors) -> None:
    mapping = (
        "CREATE MAPPING s (a BIGINT) TYPE Spark OPTIONS ('format' = 'csv', "
        f"'path' = '{place.data}')"
    )
    opened.owner.execute(mapping)
    opened.user.execute(MAP)
    for caller in (opened.user, opened.owner):
        assert "--spark" in str(refused(caller, "SELECT a FROM s").hint)
        job = "CREATE JOB j OPTIONS ('runtime' = '{}') AS INSERT INTO m SELECT a, a FROM s"
        for runtime in ("spark", "auto"):
            with pytest.raises(runnel.Error, match="Spark may not be started"):
                caller.execute(job.format(runtime))
    refused(opened.owner, "CREATE MAPPING q TYPE Spark OPTIONS ('query' = 'SELECT 1')")
