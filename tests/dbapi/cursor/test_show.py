"""What a prompt and `show()` print of a cursor, and the short names of fetches."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import runnel
from runnel import Connection
from tests.waiting import eventually

HUNDRED = "SELECT v, 'row ' || v AS t FROM TABLE(GENERATE_SERIES(1, 100)) AS s(v)"


def test_a_table_at_the_prompt(connection: Connection) -> None:
    cursor = connection.sql("SELECT 1 AS a, CAST(NULL AS VARCHAR) AS b, 'x' AS \"long name\"")
    assert repr(cursor).splitlines() == [
        "┌─────────┬─────────┬───────────┐",
        "│    a    │    b    │ long name │",
        "│ TINYINT │ VARCHAR │  VARCHAR  │",
        "├─────────┼─────────┼───────────┤",
        "│       1 │ NULL    │ x         │",
        "└─────────┴─────────┴───────────┘",
        "1 row",
    ]


def test_the_first_rows_are_shown_and_stay(connection: Connection) -> None:
    cursor = connection.sql(HUNDRED)
    shown = repr(cursor)
    assert "│ row 20 " in shown and "row 21" not in shown
    # The note below the table may say meanwhile that the query ended.
    assert repr(cursor).splitlines()[:-1] == shown.splitlines()[:-1]
    assert cursor.fetchone() == (1, "row 1")
    assert "│ row 21 " in repr(cursor) and "row 1 " not in repr(cursor)
    assert cursor.fetchmany(3) == [(2, "row 2"), (3, "row 3"), (4, "row 4")]
    assert [row[0] for row in cursor.fetchall()] == list(range(5, 101))
    assert repr(cursor).endswith("\n0 rows left (100 fetched)")


def test_rows_of_several_batches_are_shown_in_order(
    connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    connection.execute("SET query_parallelism = 1")
    rows = "UNION ALL ".join(f"SELECT {n} AS n " for n in range(6))
    cursor = connection.sql(f"SELECT n FROM ({rows}) AS t ORDER BY n")
    cursor.show(4)
    *table, note = capsys.readouterr().out.splitlines()
    assert table[4:] == [*(f"│       {n} │" for n in range(4)), "└─────────┘"]
    assert note.startswith("the first 4 rows")  # whether it knows the end depends on the workers
    assert cursor.fetchall() == [(n,) for n in range(6)]


def test_a_result_without_a_job_is_shown(connection: Connection) -> None:
    cursor = connection.sql("SHOW time_zone")
    assert "│ UTC " in repr(cursor)
    assert cursor.fetchall() == [("UTC",)]
    assert repr(cursor).endswith("0 rows left (1 fetched)")


def test_a_prompt_waits_for_nothing(connection: Connection) -> None:
    """A function blocks the query: the prompt shows it as running, and does not wait."""
    entered, release = threading.Event(), threading.Event()

    def blocked(values: object) -> object:
        entered.set()
        release.wait(30)
        return values

    connection.create_function("blocked", blocked, ["BIGINT"], "BIGINT", type="arrow")
    connection.execute("SET query_parallelism = 1")
    cursor = connection.cursor()
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(
            cursor.execute("SELECT blocked(v) FROM TABLE(GENERATE_SERIES(1, 3)) AS s(v)").fetchall()
        )
    )
    thread.start()
    try:
        assert entered.wait(30)
        assert repr(cursor).startswith("<runnel.Cursor in use by ")
    finally:
        release.set()
        thread.join()
    assert found == [[(1,), (2,), (3,)]]


def test_a_stream_is_not_read(connection: Connection) -> None:
    writer = connection.register_stream("s", {"a": "INTEGER"})
    cursor = connection.sql("SELECT a FROM s")
    assert repr(cursor).endswith("a stream: no row yet; fetch rows or iterate to read it")
    writer.write([(7,)])
    assert eventually(lambda: "│       7 │" in repr(cursor))
    assert "a stream: 1 row that arrived" in repr(cursor)
    assert cursor.fetchone() == (7,)
    assert "no row yet" in repr(cursor)


def test_a_failed_query_does_not_fail_at_the_prompt(connection: Connection) -> None:
    cursor = connection.execute(
        "SELECT v FROM TABLE(GENERATE_SERIES(1, 9000000)) AS s(v) WHERE 1 / (v - 8000000) > 1"
    )
    assert eventually(lambda: "a fetch raises the error" in repr(cursor))
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.fetchall()
    with pytest.raises(runnel.DataError, match="division by zero"):
        connection.sql("SELECT 1 / (v - 10) FROM TABLE(GENERATE_SERIES(1, 20)) AS s(v)")


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("CREATE MAPPING t (a INTEGER) TYPE DuckDB", "mapping t created"),
        ('-- note\nCREATE /* or */ VIEW "a b" AS SELECT 1 AS a', 'view "a b" created'),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "view v created"),
        ("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS a", "view v created, unless it existed"),
        ("DROP VIEW IF EXISTS v", "view v dropped, if it existed"),
        ("SET time_zone = 'UTC'", "SET done"),
    ],
)
def test_the_outcome_of_definitions(connection: Connection, sql: str, shown: str) -> None:
    assert repr(connection.sql(sql)) == shown


def test_the_outcome_of_a_failure(connection: Connection) -> None:
    cursor = connection.cursor()
    with pytest.raises(runnel.ProgrammingError):
        cursor.execute("CREATE VIEW v AS SELECT x")
    assert (repr(cursor), cursor.rowcount) == ("CREATE failed", -1)
    cursor.execute("CREATE VIEW v AS SELECT 1 AS x")
    assert repr(cursor) == "view v created"


def test_the_outcome_of_writes(connection: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    connection.execute("CREATE MAPPING t (a INTEGER) TYPE DuckDB")
    assert repr(connection.sql("INSERT INTO t VALUES (1), (2)")) == "2 rows inserted"
    assert repr(connection.sql("UPDATE t SET a = 3 WHERE a = 1")) == "1 row updated"
    connection.sql("DELETE FROM t").show()
    assert capsys.readouterr().out == "2 rows deleted\n"


def test_a_plan_keeps_its_indentation(connection: Connection) -> None:
    cursor = connection.sql(
        "EXPLAIN SELECT v FROM TABLE(GENERATE_SERIES(1, 3)) AS s(v) WHERE v > 1"
    )
    lines = [row[0] for row in connection.execute(cursor.query or "").fetchall()]
    assert repr(cursor).splitlines() == lines
    assert any(line.startswith("  ") for line in lines)


def test_the_short_names_of_fetches(connection: Connection) -> None:
    expected = {"v": [1, 2], "t": ["row 1", "row 2"]}
    sql = HUNDRED + " WHERE v < 3"
    assert connection.sql(sql).arrow().to_pydict() == expected
    assert connection.sql(sql).df().to_dict("list") == expected
    assert connection.sql(sql).pl().to_dict(as_series=False) == expected
    assert connection.cursor().sql("SELECT ? AS a", (5,), timeout=60).arrow().to_pydict() == {
        "a": [5]
    }
    with pytest.raises(runnel.InterfaceError, match="there are no rows to fetch"):
        connection.sql("SET time_zone = 'UTC'").df()


def test_what_show_refuses(connection: Connection) -> None:
    cursor = connection.sql("SELECT 1 AS a")
    for wrong in (-1, 2.5, "3", True):
        with pytest.raises(runnel.InterfaceError, match="max_rows"):
            cursor.show(wrong)  # type: ignore[arg-type]
    with pytest.raises(runnel.InterfaceError, match="max_width"):
        cursor.show(max_width=-1)
    cursor.close()
    with pytest.raises(runnel.InterfaceError, match="the cursor is closed"):
        cursor.show()
    assert repr(cursor) == "<runnel.Cursor closed>"


def test_a_terminal_without_these_characters(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.txt"
    with path.open("w", encoding="latin-1") as file:
        monkeypatch.setattr("sys.stdout", file)
        connection.sql("SELECT 'Österreich €' AS a").show()
        monkeypatch.undo()
    assert path.read_text("latin-1").splitlines()[3:5] == [
        "+--------------+",
        "| Österreich ? |",
    ]


def test_the_default_connection() -> None:
    assert runnel.sql("SELECT 6 * 7 AS answer").fetchall() == [(42,)]
    connection = runnel.default_connection()
    assert connection is runnel.default_connection()
    runnel.sql("CREATE VIEW of_default AS SELECT 1 AS a")
    assert runnel.sql("SELECT a FROM of_default").fetchone() == (1,)
    connection.close()
    assert runnel.sql("SELECT ? AS a", (1,)).fetchone() == (1,)
    with pytest.raises(runnel.ProgrammingError, match="of_default"):
        runnel.sql("SELECT a FROM of_default")
    runnel.default_connection().close()
