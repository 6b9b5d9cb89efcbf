"""Streams joined with tables that are read again at times ('refreshMillis')."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.runtime.light_job import Jobs
from runnel.testing.clock import ManualClock

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
SECOND = 10**9


class Bench:
    """A connection whose time a test moves, with a stream s to write to."""

    def __init__(self, connection: runnel.Connection) -> None:
        self.connection = connection
        self.clock = ManualClock(SECOND)
        database = connection._database
        database.jobs.close()
        database.jobs = Jobs(2, self.clock, kernel=database.kernel, memory=database.memory)
        connection._session.light_jobs = database.jobs
        self.stream = connection.register_stream("s", SCHEMA, time_column="n")

    @contextmanager
    def query(self, sql: str) -> Iterator[runnel.Cursor]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            yield cursor
            self.stream.close()
            assert cursor.fetchone() is None

    def rows(
        self, cursor: runnel.Cursor, *rows: tuple[int | None, int], count: int | None = None
    ) -> list[Any]:
        self.stream.write(rows)
        found = [cursor.fetchone() for _ in range(len(rows) if count is None else count)]
        return sorted(row for row in found if row is not None)

    def until(self, cursor: runnel.Cursor, row: tuple[int, int], expected: Any) -> None:
        """Writes the row until it finds what is expected: a version is read between the batches."""
        for _ in range(10_000):
            (found,) = self.rows(cursor, row)
            if found == expected:
                return
        raise AssertionError(f"never found {expected}, last {found}")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with runnel.connect() as connection:
        yield Bench(connection)


def replace_file(path: Path, text: str) -> None:
    """As those do who don't want half of it to be read."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def file_mapping(
    bench: Bench, folder: Path, text: str, more: str = ", 'refreshMillis' = '5000'"
) -> Path:
    (folder / "in").mkdir()
    path = folder / "in" / "t.csv"
    replace_file(path, text)
    bench.connection.execute(
        "CREATE MAPPING t (k BIGINT, name VARCHAR) TYPE File "
        f"OPTIONS ('path' = '{path}', 'format' = 'csv'{more})"
    )
    return path


def test_a_file_that_is_rewritten(bench: Bench, tmp_path: Path) -> None:
    path = file_mapping(bench, tmp_path, "k,name\n1,one\n2,two\n")
    with bench.query("SELECT s.n, t.name FROM s LEFT JOIN t ON s.k = t.k") as cursor:
        assert bench.rows(cursor, (1, 1), (2, 2), (3, 3), (None, 4)) == [
            (1, "one"),
            (2, "two"),
            (3, None),
            (4, None),
        ]
        replace_file(path, "k,name\n1,uno\n3,tre\n")
        bench.clock.advance(5 * SECOND - 1)
        assert bench.rows(cursor, (1, 5), (3, 6)) == [(5, "one"), (6, None)]
        bench.clock.advance(1)
        bench.until(cursor, (1, 7), (7, "uno"))
        # All of the next version is there, and nothing of the one before.
        assert bench.rows(cursor, (1, 8), (2, 9), (3, 10)) == [(8, "uno"), (9, None), (10, "tre")]
        replace_file(path, "k,name\n1,eins\n")
        bench.clock.advance(5 * SECOND)
        bench.until(cursor, (1, 11), (11, "eins"))
        assert bench.rows(cursor, (3, 12)) == [(12, None)]


def test_a_table_of_duckdb_that_is_written_to(bench: Bench, tmp_path: Path) -> None:
    bench.connection.execute(
        f"CREATE DATA CONNECTION d TYPE DuckDB OPTIONS ('path' = '{tmp_path}/f.duckdb', "
        "'create' = 'true')"
    )
    bench.connection.execute(
        "CREATE MAPPING t (k BIGINT, name VARCHAR) DATA CONNECTION d "
        "OPTIONS ('refreshMillis' = '250')"
    )
    bench.connection.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (2, 'zwei')")
    sql = (
        "SELECT s.n, t.name, t.c FROM s JOIN (SELECT k, MAX(name) AS name, COUNT(*) AS c FROM t "
        "GROUP BY k) t ON s.k = t.k"
    )
    with bench.query(sql) as cursor:
        assert bench.rows(cursor, (1, 1), (7, 2), (2, 3), count=2) == [
            (1, "one", 1),
            (3, "zwei", 2),
        ]
        bench.connection.execute("UPDATE t SET name = 'uno' WHERE k = 1")
        bench.connection.execute("INSERT INTO t VALUES (7, 'seven')")
        assert bench.rows(cursor, (1, 4)) == [(4, "one", 1)]
        bench.clock.advance(250_000_000)
        bench.until(cursor, (1, 5), (5, "uno", 1))
        assert bench.rows(cursor, (7, 6)) == [(6, "seven", 1)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT s.n, t.name FROM s JOIN t ON s.k = t.k AND t.name < 'p'", [(1, "one")]),
        ("SELECT s.n, t.name FROM t, s WHERE s.k < t.k", [(1, "two")]),
        (
            "SELECT s.n, t.name FROM s LEFT JOIN t ON s.k = t.k AND s.n > 1",
            [(1, None), (2, None), (3, "two"), (4, None)],
        ),
        ("SELECT s.n FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", [(1,), (3,)]),
        ("SELECT s.n FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", [(2,), (4,)]),
        ("SELECT s.n FROM s WHERE s.k NOT IN (SELECT t.k FROM t)", [(4,)]),
        (
            "SELECT s.n, s.k IN (SELECT t.k FROM t) FROM s",
            [(1, True), (2, None), (3, True), (4, False)],
        ),
        (
            "SELECT s.n, (SELECT t.name FROM t WHERE t.k = s.k) FROM s",
            [(1, "one"), (2, None), (3, "two"), (4, None)],
        ),
        (
            (
                "SELECT s.n, t.u FROM s JOIN (SELECT k * 10 AS k, UPPER(name) AS u FROM t "
                "WHERE k > 1) t ON s.k * 10 = t.k"
            ),
            [(3, "TWO")],
        ),
    ],
)
def test_all_kinds(bench: Bench, tmp_path: Path, sql: str, expected: list[Any]) -> None:
    file_mapping(bench, tmp_path, "k,name\n1,one\n2,two\n")
    (plan,) = bench.connection.execute("EXPLAIN (PHYSICAL) " + sql).fetchone() or ("",)
    assert "refreshed every 5 s" in plan
    with bench.connection.cursor() as cursor:
        cursor.execute(sql)
        bench.stream.write([(1, 1), (None, 2), (2, 3)])
        bench.stream.write([(9, 4)])
        bench.stream.close()
        assert sorted(cursor.fetchall()) == expected


def test_a_read_that_fails_keeps_the_last_version(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = file_mapping(bench, tmp_path, "k,name\n1,one\n")
    with (
        caplog.at_level(logging.WARNING),
        bench.query("SELECT s.n, t.name FROM s JOIN t ON s.k = t.k") as cursor,
    ):
        assert bench.rows(cursor, (1, 1)) == [(1, "one")]
        replace_file(path, "k,name\n1,uno\nx,y\n")
        bench.clock.advance(5 * SECOND)
        while not any("last version stays in use" in record.message for record in caplog.records):
            assert bench.rows(cursor, (1, 2)) == [(2, "one")]
        replace_file(path, "k,name\n1,eins\n")
        assert bench.rows(cursor, (1, 3)) == [(3, "one")]
        bench.clock.advance(5 * SECOND)
        bench.until(cursor, (1, 4), (4, "eins"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_first_read_that_fails_fails_the_query(
    bench: Bench, tmp_path: Path, is_there: bool
) -> None:
    path = file_mapping(bench, tmp_path, "k,name\n1,one\n")
    if is_there:
        replace_file(path, "k,name\n1,uno\nx,y\n")
    else:
        path.unlink()
    with pytest.raises(runnel.Error, match=r"t\.csv"), bench.connection.cursor() as cursor:
        cursor.execute("SELECT s.n, t.name FROM s JOIN t ON s.k = t.k")
        with suppress(
            runnel.OperationalError
        ):  # the query may be over by now, and then nobody reads
            bench.stream.write([(1, 1)], timeout=0)
        cursor.fetchone()


def test_an_empty_version_ends_nothing(bench: Bench, tmp_path: Path) -> None:
    path = file_mapping(bench, tmp_path, "k,name\n")
    with bench.query("SELECT s.n, t.name FROM s LEFT JOIN t ON s.k = t.k") as cursor:
        assert bench.rows(cursor, (1, 1)) == [(1, None)]
        replace_file(path, "k,name\n1,one\n")
        bench.clock.advance(5 * SECOND)
        bench.until(cursor, (1, 2), (2, "one"))


def test_without_the_option_a_table_is_read_once(bench: Bench, tmp_path: Path) -> None:
    path = file_mapping(bench, tmp_path, "k,name\n1,one\n", more="")
    sql = "SELECT s.n, t.name FROM s JOIN t ON s.k = t.k"
    assert "refreshed" not in str(bench.connection.execute("EXPLAIN (PHYSICAL) " + sql).fetchall())
    with bench.query(sql) as cursor:
        assert bench.rows(cursor, (1, 1)) == [(1, "one")]
        replace_file(path, "k,name\n1,uno\n")
        bench.clock.advance(3600 * SECOND)
        assert bench.rows(cursor, (1, 2)) == [(2, "one")]


def test_windows_above_it_are_complete(bench: Bench, tmp_path: Path) -> None:
    file_mapping(bench, tmp_path, "k,name\n1,one\n2,two\n")
    sql = (
        "SELECT window_end, name, COUNT(*) FROM TABLE(TUMBLE((SELECT s.n, t.name FROM s "
        "JOIN t ON s.k = t.k), "
        "DESCRIPTOR(n), 10)) GROUP BY window_end, name"
    )
    with bench.query(sql) as cursor:
        assert bench.rows(cursor, (1, 1), (1, 4), (2, 12), count=1) == [(10, "one", 2)]
        bench.stream.close()
        assert cursor.fetchone() == (20, "two", 1)


def test_what_it_says_of_its_state(bench: Bench, tmp_path: Path) -> None:
    file_mapping(bench, tmp_path, "k,name\n1,one\n")
    text = str(
        bench.connection.execute("EXPLAIN (STATE) SELECT * FROM s JOIN t ON s.k = t.k").fetchall()
    )
    assert "refreshed every 5 s, and the rows of its next version" in text


def test_it_lasts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k\n1\n")
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(
            f"CREATE MAPPING t TYPE File OPTIONS ('path' = '{tmp_path}/t.csv', "
            "'REFRESHMILLIS' = '1500', 'format' = 'csv')"
        )
    with runnel.connect(tmp_path / "db") as connection:
        connection.register_stream("s", SCHEMA)
        text = str(
            connection.execute("EXPLAIN (PHYSICAL) SELECT * FROM s JOIN t ON s.k = t.k").fetchall()
        )
        assert "refreshed every 1500 ms" in text


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "soon", "", "9" * 30])
def test_values_that_it_can_not_have(bench: Bench, tmp_path: Path, value: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match="option 'refreshMillis' can't be"):
        file_mapping(bench, tmp_path, "k,name\n1,one\n", more=f", 'refreshMillis' = '{value}'")


def test_a_stream_is_not_read_again(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(runnel.ProgrammingError, match="for mappings that are read to an end"):
        file_mapping(
            bench, tmp_path, "k,name\n1,one\n", more=", 'follow' = 'true', 'refreshMillis' = '1000'"
        )
