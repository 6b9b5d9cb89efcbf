"""Files behind URLs, which fsspec opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import runnel
from runnel import Connection


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


@pytest.mark.parametrize(
    "options",
    [
        "'format' = 'csv'",
        "'format' = 'csv', 'compression' = 'gz'",
        "'format' = 'json'",
        "'format' = 'json', 'compression' = 'zst'",
        "'format' = 'parquet'",
        "'format' = 'avro'",
        "'format' = 'parquet', 'partitionBy' = 'b'",
    ],
)
def test_rows_are_written_and_read(con: Connection, memory: Any, options: str) -> None:
    con.execute(
        "CREATE MAPPING m (a INT, b VARCHAR) TYPE File "
        f"OPTIONS ('path' = 'memory://bucket/t', {options})"
    )
    assert con.execute("INSERT INTO m VALUES (1, 'x'), (2, NULL)").rowcount == 2
    assert con.execute("INSERT INTO m VALUES (3, 'y')").rowcount == 1
    assert rows(con, "SELECT * FROM m ORDER BY a") == [(1, "x"), (2, None), (3, "y")]
    assert rows(con, "SELECT a FROM m WHERE b = 'y'") == [(3,)]
    assert not [name for name in memory.find("/bucket") if "/." in name], "nothing unfinished stays"


def test_lines_and_single_files(con: Connection, memory: Any) -> None:
    memory.pipe("/logs/a.log", b"one\ntwo\n")
    memory.pipe("/logs/b.log", b"three\n")
    memory.pipe("/logs/.hidden.log", b"never\n")
    assert rows(con, "SELECT line FROM TABLE(LINES_FILE('memory://logs/a.log'))") == [
        ("one",),
        ("two",),
    ]
    assert rows(con, "SELECT count(*) FROM TABLE(LINES_FILE('memory://logs'))") == [(3,)]
    assert rows(con, "SELECT line, line_number FROM TABLE(LINES_FILE('memory://logs/b*.log'))") == [
        ("three", 1)
    ]
    assert rows(con, "SELECT count(*) FROM TABLE(LINES_FILE('memory://', glob => '**/*.log'))") == [
        (3,)
    ]


def test_a_new_file_of_a_given_name(con: Connection, memory: Any) -> None:
    con.execute("CREATE MAPPING m (a INT) TYPE File OPTIONS ('path' = 'memory://out/one.csv')")
    con.execute("INSERT INTO m VALUES (1)")
    assert memory.cat("/out/one.csv") == b"a\n1\n"
    with pytest.raises(runnel.OperationalError, match="exists already"):
        con.execute("INSERT INTO m VALUES (2)")


def test_nothing_stays_of_a_statement_that_fails(con: Connection, memory: Any) -> None:
    con.execute(
        "CREATE MAPPING m (a INT) TYPE File OPTIONS ('path' = 'memory://out/t', 'format' = 'csv')"
    )
    with pytest.raises(runnel.DataError):
        con.execute("INSERT INTO m SELECT 10 / (v - 90000) FROM TABLE(GENERATE_SERIES(1, 100000))")
    assert memory.find("/out") == []


def test_file_urls_are_local_paths(con: Connection, tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_text("a\n1\n")
    assert rows(con, f"SELECT * FROM TABLE(CSV_FILE('file://{tmp_path}/a%20b.csv'))") == [(1,)]
    con.execute(
        f"CREATE MAPPING m (a INT) TYPE File OPTIONS ('path' = 'file://{tmp_path}/out', "
        "'format' = 'csv')"
    )
    for kind in ("File OPTIONS ('format' = 'csv', ", "Delta OPTIONS ("):
        with pytest.raises(runnel.ProgrammingError, match="is no URL") as caught:
            con.execute(
                f"CREATE MAPPING w (a INT) TYPE {kind}'path' = 'file://u:hunter2@[bad/a.csv')"
            )
        assert "hunter2" not in caught.value.message
    con.execute("INSERT INTO m VALUES (7)")
    assert len(list((tmp_path / "out").glob("part-*.csv"))) == 1


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("memory://nosuch/f.csv", 'file or folder "memory://nosuch/f.csv" not found'),
        ("memory://nosuch/*.csv", "no file matches the pattern"),
        ("s3://bucket/f.csv", 'path "s3://bucket/f.csv" needs another package'),
        ("nosuch://bucket/f.csv", 'path "nosuch://bucket/f.csv" can\'t be used'),
    ],
)
def test_wrong_urls(con: Connection, memory: Any, path: str, said: str) -> None:
    with pytest.raises(runnel.Error) as caught:
        rows(con, f"SELECT * FROM TABLE(CSV_FILE('{path}'))")
    assert said in caught.value.message


def test_options_of_the_file_system(con: Connection, tmp_path: Path) -> None:
    with pytest.raises(runnel.ProgrammingError, match="is for paths of other file systems"):
        con.execute(
            f"CREATE MAPPING m (a INT) TYPE File OPTIONS ('path' = '{tmp_path}/f.csv', "
            "'storage.key' = 'k')"
        )
    archive = tmp_path / "f.zip"
    import zipfile

    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("inner/f.csv", "a\n5\n")
    con.execute(
        "CREATE MAPPING z TYPE File OPTIONS ('path' = 'zip://inner/f.csv', 'format' = 'csv', "
        f"'storage.fo' = '{archive}')"
    )
    assert rows(con, "SELECT * FROM z") == [(5,)]


def test_damaged_files_behind_urls(con: Connection, memory: Any) -> None:
    memory.pipe("/d/f.parquet", b"no Parquet at all")
    with pytest.raises(runnel.DataError, match="is text, not Parquet"):
        rows(con, "SELECT * FROM TABLE(PARQUET_FILE('memory://d/f.parquet'))")
    memory.pipe("/d/f.parquet", b"PAR1 no Parquet at all\x00\x01\xff")
    with pytest.raises(runnel.OperationalError, match="can't be read"):
        rows(con, "SELECT * FROM TABLE(PARQUET_FILE('memory://d/f.parquet'))")
