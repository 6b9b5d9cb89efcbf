"""Fragments on DuckDB: when they are chosen, what they see, how they end, how they fail."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel

CREATE_MAP = (
    "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
)
NAN = float("nan")
HUGE = "SELECT COUNT(*) FROM big a, big b, big c, big d WHERE a.v + b.v + c.v + d.v = -1"


@pytest.fixture
def forced() -> Iterator[runnel.Connection]:
    """A connection on which DuckDB runs whatever it can."""
    with runnel.connect(fragment_rows=0) as made:
        yield made


EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, 127, 0]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1, 0]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1, 0]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "unsigned": (pa.uint32(), [0, 2**32 - 1, 1]),
    "real": (pa.float32(), [float("nan"), -0.0, float("-inf")]),
    "double": (pa.float64(), [float("nan"), -0.0, 5e-324]),
    "exact": (
        pa.decimal128(38, 10),
        [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1E-10"), Decimal(0)],
    ),
    "text": (pa.string(), ["", "it's \0 ''", "\U0001f30d é"]),
    "large": (pa.large_string(), ["", "x" * 3000, "y"]),
    "encoded": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    "bytes": (pa.binary(), [b"", b"\0\xff", b"abc"]),
    "flag": (pa.bool_(), [True, False, True]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]),
    "hour": (pa.time64("us"), [clock_time(0), clock_time(23, 59, 59, 999999), clock_time(12)]),
    "moment": (
        pa.timestamp("us"),
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31)],
    ),
    "milli": (
        pa.timestamp("ms"),
        [datetime(1970, 1, 1), datetime(2024, 2, 29), datetime(1969, 12, 31)],
    ),
    "instant": (
        pa.timestamp("us", "Europe/Vienna"),
        [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None],
    ),
    "span": (
        pa.duration("us"),
        [timedelta(microseconds=-1), timedelta(days=100_000), timedelta(0)],
    ),
    "items": (pa.list_(pa.int64()), [[1, None], [], None]),
    "record": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": 1, "b": None}, None, {"a": None, "b": "x"}],
    ),
}


def edge_table() -> pa.Table:
    """Rows of edge values and one of NULLs, a column of each type."""
    columns = [pa.array([*values, None, None][:4], kind) for kind, values in EDGES.values()]
    return pa.Table.from_arrays(columns, names=list(EDGES))


def plan(connection: runnel.Connection, sql: str) -> str:
    return "\n".join(line for (line,) in connection.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall())


def numbers(count: int) -> pa.Table:
    return pa.table({"k": [i % 3 for i in range(count)], "v": list(range(count))})


def duckdb_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("runnel-duckdb")]


# Which plans have fragments


def test_small_queries_import_no_duckdb() -> None:
    code = """
import sys, pyarrow as pa, runnel

with runnel.connect() as con:
    con.register("t", pa.table([pa.nulls(3, pa.int64())], names=["a"]))
    con.execute("SELECT 1").fetchall()
    con.execute("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY a").fetchall()
    print(
        [
            name
            for name in ("duckdb", "runnel.connectors.duckdb.fragments", "runnel.rendering.render")
            if name in sys.modules
        ]
    )
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_size_decides() -> None:
    sql = "SELECT k, SUM(v) FROM t GROUP BY k"
    with runnel.connect(fragment_rows=1000) as connection:
        connection.register("t", numbers(999))
        assert "Fragment" not in plan(connection, sql)
        connection.register("t", numbers(1000))
        assert plan(connection, sql).startswith(
            "Fragment on DuckDB (chosen for: many rows to group, join or sort; sql: SELECT "
        )
        assert "Fragment" not in plan(connection, "SELECT v FROM t WHERE v > 5")
        assert sorted(connection.execute(sql).fetchall()) == [(0, 166833), (1, 166167), (2, 166500)]


def test_pushdown_off_and_on_again(forced: runnel.Connection) -> None:
    forced.register("t", numbers(10))
    sql = "SELECT k, SUM(v) FROM t GROUP BY k ORDER BY k"
    expected = [(0, 18), (1, 12), (2, 15)]
    for value, has_fragment in (
        ("on", True),
        ("off", False),
        ("'on'", True),
        ("FALSE", False),
        ("DEFAULT", True),
    ):
        forced.execute(f"SET pushdown = {value}")
        assert ("Fragment" in plan(forced, sql)) is has_fragment
        assert forced.execute(sql).fetchall() == expected
    with pytest.raises(runnel.ProgrammingError, match="it accepts on or off"):
        forced.execute("SET pushdown = 'perhaps'")


def test_what_stops_a_fragment_is_told(forced: runnel.Connection) -> None:
    forced.create_function("twice", lambda x: x, ["BIGINT"], "BIGINT")
    forced.register("t", numbers(10))
    text = plan(
        forced, "SELECT twice(total) FROM (SELECT k, SUM(v) AS total FROM t GROUP BY k) AS s"
    )
    assert text.splitlines()[0].startswith("Calc")
    assert "Fragment on DuckDB (chosen for: " in text
    assert "stopped by: " in text
    assert "sql: SELECT" in text


def test_names_of_the_user_are_nowhere_in_the_engines_sql(forced: runnel.Connection) -> None:
    table = pa.table({'a"; DROP TABLE x; --': [1, 2], "select": ["it's", 'q"'], "$1": [3, 4]})
    forced.register("odd ' \" name", table)
    assert forced.execute('SELECT * FROM "odd \' "" name" ORDER BY 1').fetchall() == [
        (1, "it's", 3),
        (2, 'q"', 4),
    ]


# What they see


def test_a_query_sees_the_map_as_it_was(forced: runnel.Connection) -> None:
    forced.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    forced.execute("INSERT INTO m VALUES (1, 10), (2, 20)")
    cursor = forced.cursor().execute("SELECT COUNT(*), SUM(this) FROM m WHERE this > 0")
    forced.execute("INSERT INTO m VALUES (3, 30)")
    forced.execute("DELETE FROM m WHERE __key = 1")
    assert cursor.fetchall() == [(2, 30)]
    assert forced.execute("SELECT COUNT(*), SUM(this) FROM m WHERE this > 0").fetchall() == [
        (2, 50)
    ]


@pytest.mark.parametrize("union", ["UNION ALL", "UNION"])
@pytest.mark.parametrize(
    "step", ["FROM r JOIN m ON m.__key = r.n", "FROM r LEFT JOIN m ON m.__key > r.n", "FROM r, m"]
)
def test_each_round_of_a_recursion_reads_the_map(
    forced: runnel.Connection, union: str, step: str
) -> None:
    forced.execute(CREATE_MAP)
    forced.cursor().executemany("SINK INTO m VALUES (?, ?)", [(i, i + 1) for i in range(5)])
    rounds = f"SELECT 0, 0 {union} SELECT m.this, r.d + 1 {step} WHERE r.d < 3"
    sql = f"WITH RECURSIVE r(n, d) AS ({rounds}) SELECT * FROM r ORDER BY 1, 2"
    assert "Fragment on DuckDB" in plan(forced, sql)
    rows = forced.execute(sql).fetchall()
    forced.execute("SET pushdown = off")
    assert rows == forced.execute(sql).fetchall()
    assert max(depth for _, depth in rows) == 3


def test_a_query_sees_the_files_as_they_were(forced: runnel.Connection, tmp_path: Path) -> None:
    pq.write_table(numbers(3), tmp_path / "a.parquet")
    forced.execute(f"CREATE MAPPING f TYPE File OPTIONS ('path'='{tmp_path}', 'format'='parquet')")
    sql = "SELECT k, COUNT(*) FROM f GROUP BY k ORDER BY k"
    assert forced.execute(sql).fetchall() == [(0, 1), (1, 1), (2, 1)]
    cursor = forced.cursor().execute(sql)
    pq.write_table(numbers(3), tmp_path / "b.parquet")
    assert cursor.fetchall() == [(0, 1), (1, 1), (2, 1)]
    assert forced.execute(sql).fetchall() == [(0, 2), (1, 2), (2, 2)]


def test_a_query_sees_a_duckdb_table_as_it_was(forced: runnel.Connection) -> None:
    forced.execute("CREATE MAPPING d (a BIGINT) TYPE DuckDB")
    forced.execute("INSERT INTO d VALUES (1), (2)")
    cursor = forced.cursor().execute("SELECT SUM(a) FROM d")
    forced.execute("INSERT INTO d VALUES (3)")
    assert cursor.fetchall() == [(3,)]
    assert forced.execute("SELECT SUM(a) FROM d").fetchall() == [(6,)]


def test_files_that_differ_in_types_mean_what_our_reader_says(
    forced: runnel.Connection, tmp_path: Path
) -> None:
    pq.write_table(
        pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "y"]}), tmp_path / "a.parquet"
    )
    pq.write_table(pa.table({"a": pa.array([3.0], pa.float64())}), tmp_path / "b[1].parquet")
    columns = "(a BIGINT, s VARCHAR)"
    forced.execute(
        f"CREATE MAPPING f {columns} TYPE File OPTIONS ('path'='{tmp_path}', 'format'='parquet')"
    )
    sql = "SELECT a, s, COUNT(*) FROM f GROUP BY a, s ORDER BY a"
    assert forced.execute(sql).fetchall() == [(1, "x", 1), (2, "y", 1), (3, None, 1)]
    forced.execute("SET pushdown = off")
    assert forced.execute(sql).fetchall() == [(1, "x", 1), (2, "y", 1), (3, None, 1)]


@pytest.mark.parametrize(
    "values",
    [[1.0, NAN, 2.0, None], [1.0, NAN, 2.0, 3.0], [1.0, NAN, 1.0], [NAN, NAN], [NAN, None]],
)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_not_a_number_in_a_parquet_file(
    forced: runnel.Connection, tmp_path: Path, kind: pa.DataType, values: list[float | None]
) -> None:
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"f": pa.array(values, kind), "n": list(range(len(values)))}), file)
    forced.execute(f"CREATE MAPPING t TYPE File OPTIONS ('path' = '{file}', 'format' = 'parquet')")
    conditions = [
        "f = CAST('NaN' AS DOUBLE)",
        "f > 100",
        "f >= 2",
        "f < CAST('NaN' AS REAL)",
        "NOT f <= 1",
        "f <> 1",
        "f + 1 > 9",
    ]
    queries = [f"SELECT n FROM t WHERE {condition} ORDER BY n" for condition in conditions]
    queries += [
        "SELECT MAX(f) = CAST('NaN' AS DOUBLE) FROM t",
        "SELECT a.n, b.n FROM t a JOIN t b ON a.f = b.f AND b.f > 100 ORDER BY 1, 2",
        "SELECT n FROM t WHERE f = (SELECT MAX(f) FROM t) ORDER BY n",
        "SELECT n FROM t ORDER BY f DESC, n LIMIT 1",
        (
            "SELECT COUNT(*) FROM (SELECT DISTINCT f FROM t "
            "WHERE f IN (SELECT f FROM t WHERE f > 100)) x"
        ),
    ]
    found = [forced.execute(sql).fetchall() for sql in queries]
    assert "Fragment on DuckDB" in plan(forced, queries[0])
    forced.execute("SET pushdown = off")
    assert found == [forced.execute(sql).fetchall() for sql in queries]
    assert (values.index(NAN),) in found[1]


def test_columns_in_the_names_of_folders(forced: runnel.Connection, tmp_path: Path) -> None:
    for year in (2023, 2024):
        folder = tmp_path / f"y={year}"
        folder.mkdir()
        pq.write_table(pa.table({"a": [year], "y": [9]}), folder / "x.parquet")
    options = f"'path'='{tmp_path}', 'format'='parquet', 'hivePartitioning'='true'"
    forced.execute(f"CREATE MAPPING f TYPE File OPTIONS ({options})")
    sql = "SELECT y, SUM(a) FROM f GROUP BY y ORDER BY y"
    assert plan(forced, sql).startswith("Fragment on DuckDB")
    assert forced.execute(sql).fetchall() == [(2023, 2023), (2024, 2024)]


def test_all_types_go_in_and_out_unchanged(forced: runnel.Connection) -> None:
    table = edge_table()
    forced.register("t", table)
    sql = "SELECT * FROM t LIMIT 1000"
    assert plan(forced, sql).startswith("Fragment on DuckDB")
    pushed = forced.execute(sql).fetch_arrow_table()
    forced.execute("SET pushdown = off")
    own = forced.execute(sql).fetch_arrow_table()
    assert pushed.schema == own.schema
    assert pushed.num_rows == own.num_rows > 0
    for name in own.schema.names:
        assert repr(pushed[name].to_pylist()) == repr(own[name].to_pylist()), name


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT 1 FROM t) AS s",
        "SELECT 7 FROM t",
        "SELECT COUNT(*) FROM t, t u",
    ],
)
def test_relations_without_columns(forced: runnel.Connection, sql: str) -> None:
    forced.register("t", numbers(4))
    pushed = forced.execute(sql).fetchall()
    forced.execute("SET pushdown = off")
    assert pushed == forced.execute(sql).fetchall()


def test_parameters_time_and_zone(forced: runnel.Connection) -> None:
    forced.register("t", numbers(10))
    cursor = forced.cursor()
    for low, count in ((3, 2), (8, 1), (0, 100)):
        rows = cursor.execute(
            "SELECT v FROM t WHERE v >= ? ORDER BY v LIMIT ?", (low, count)
        ).fetchall()
        assert rows == [(v,) for v in range(low, 10)][:count]
    (same,) = cursor.execute(
        "SELECT COUNT(DISTINCT n) FROM (SELECT v, NOW() AS n FROM t) AS s"
    ).fetchall()
    assert same == (1,)
    with pytest.raises(runnel.DataError, match="LIMIT value cannot be negative"):
        cursor.execute("SELECT v FROM t LIMIT ?", (-1,)).fetchall()


def test_a_write_reads_through_a_fragment(forced: runnel.Connection) -> None:
    forced.register("t", numbers(10))
    forced.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
    )
    sql = "INSERT INTO m SELECT k, SUM(v) FROM t GROUP BY k"
    assert "Fragment on DuckDB" in plan(forced, sql)
    assert forced.execute(sql).rowcount == 3
    assert forced.execute("SELECT __key, this FROM m ORDER BY __key").fetchall() == [
        (0, 18),
        (1, 12),
        (2, 15),
    ]


# How they fail


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1 / (v - 5) FROM t", "division by zero"),
        ("SELECT 1e0 / (v - 5) FROM t", "division by zero"),
        ("SELECT v % 0 FROM t", "division by zero"),
        ("SELECT v + 9223372036854775807 FROM t", "out of"),
        ("SELECT v * 9223372036854775807 FROM t", "out of"),
        ("SELECT CAST(v * 100 AS TINYINT) FROM t", "."),
        ("SELECT CAST('x' || CAST(v AS VARCHAR) AS BIGINT) FROM t", "."),
        ("SELECT SUM(v + 4611686018427387904) FROM t", "."),
        ("SELECT (SELECT v FROM t)", "more than one row returned by a subquery"),
    ],
)
def test_bad_data_is_a_data_error(forced: runnel.Connection, sql: str, message: str) -> None:
    forced.register("t", numbers(10))
    assert "Fragment on DuckDB" in plan(forced, sql)
    with pytest.raises(runnel.DataError, match=message) as caught:
        forced.execute(sql).fetchall()
    assert caught.value.position is not None
    assert forced.execute("SELECT COUNT(*) FROM t").fetchall() == [(10,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT v FROM t WHERE v <> 0 AND 6 / v > 2", [(1,), (2,)]),
        ("SELECT v FROM (SELECT v FROM t WHERE v <> 0) AS s WHERE 6 / v > 2", [(1,), (2,)]),
        ("SELECT a.v FROM t a JOIN few b ON a.v = b.v WHERE 6 / a.v > 2", [(1,), (2,)]),
        ("SELECT a.v FROM t a JOIN few b ON a.v = b.v AND 6 / a.v > 2", [(1,), (2,)]),
        (
            (
                "SELECT s.q FROM (SELECT 6 / a.v AS q FROM t a JOIN few b ON a.v = b.v) AS s "
                "WHERE s.q > 2 ORDER BY 1"
            ),
            [(3,), (6,)],
        ),
        ("SELECT v FROM t GROUP BY v HAVING SUM(v) > 0 AND 6 / v > 2 ORDER BY v", [(1,), (2,)]),
        (
            (
                "SELECT 6 / v FROM (SELECT v FROM t ORDER BY v DESC LIMIT 3) AS s WHERE 6 / v >= 0 "
                "ORDER BY 1"
            ),
            [(0,), (0,), (0,)],
        ),
        ("SELECT SUM(CASE WHEN v <> 0 THEN 6 / v ELSE 0 END) FROM t", [(14,)]),
        ("SELECT SUM(6 / v) FILTER (WHERE v <> 0) FROM t", [(14,)]),
    ],
)
def test_rows_that_are_not_reached_cannot_fail(
    forced: runnel.Connection, sql: str, expected: list[tuple[int]]
) -> None:
    forced.register("t", numbers(10))
    forced.register("few", pa.table({"v": [1, 2]}))
    assert "Fragment on DuckDB" in plan(forced, sql)
    assert sorted(forced.execute(sql).fetchall()) == expected


def test_a_failing_input_tells_its_own_story(forced: runnel.Connection) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is on fire")

    schema = pa.schema([pa.field("a", pa.int64())])
    forced.register("r", pa.RecordBatchReader.from_batches(schema, batches()))
    with pytest.raises(
        runnel.OperationalError, match='reading the registered object "r" failed'
    ) as caught:
        forced.execute("SELECT a, COUNT(*) FROM r GROUP BY a").fetchall()
    assert "the disk is on fire" in str(caught.value)


# How they end


def test_closing_the_cursor_stops_the_work(forced: runnel.Connection) -> None:
    forced.register("big", numbers(3000))
    cursor = forced.cursor().execute("SELECT a.v FROM big a, big b, big c")
    assert cursor.fetchone() is not None
    cursor.close()
    deadline = time.monotonic() + 10
    while duckdb_threads() and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert duckdb_threads() == []


def test_a_time_out_stops_the_work(forced: runnel.Connection) -> None:
    forced.register("big", numbers(3000))
    with pytest.raises(runnel.OperationalError, match=r"longer than its time-out of 0\.2 s"):
        forced.execute(HUGE, timeout=0.2).fetchall()
    assert forced.execute("SELECT COUNT(*) FROM big").fetchall() == [(3000,)]


def test_closing_the_connection_stops_the_work() -> None:
    connection = runnel.connect(fragment_rows=0)
    connection.register("big", numbers(3000))
    done: list[str] = []

    def run() -> None:
        try:
            connection.execute(HUGE).fetchall()
        except runnel.Error as error:
            done.append(type(error).__name__)

    thread = threading.Thread(target=run)
    thread.start()
    while not duckdb_threads():
        threading.Event().wait(0.001)
    connection.close()
    thread.join(10)
    assert done
    assert duckdb_threads() == []


def test_nothing_is_said_at_exit() -> None:
    code = """
import runnel, pyarrow as pa
con = runnel.connect(fragment_rows=0)
con.register("t", pa.table({"a": list(range(1000))}))
cursor = con.cursor()
cursor.execute("SELECT x.a FROM t x, t y, t z")
print(len(cursor.fetchmany(5)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "5")
    assert "leaked" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_temporary_folder_is_gone_with_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with runnel.connect(fragment_rows=0) as connection:
        connection.register("t", numbers(10))
        connection.execute("SELECT COUNT(*) FROM t").fetchall()
        assert list(tmp_path.glob("runnel-*"))
    assert not list(tmp_path.glob("runnel-*"))


@pytest.mark.parametrize("kind", ["DuckDB", "registered"])
def test_a_constant_among_the_rows_of_a_subquery(kind: str) -> None:
    """As a semi join DuckDB 2.0 would look at the first of them only."""
    sql = (
        "SELECT t.s FROM t LEFT JOIN e ON t.b = e.b "
        "WHERE COALESCE(e.s, 'b') <> t.s AND {0} IN (SELECT f FROM u)"
    )
    with runnel.connect() as con, runnel.connect(fragment_rows=0) as other:
        con.execute("CREATE MAPPING u (f DOUBLE) TYPE DuckDB")
        con.execute("INSERT INTO u VALUES (1), (0)")
        for name in "te":
            con.execute(f"CREATE MAPPING {name} (b BOOLEAN, s VARCHAR) TYPE DuckDB")
        con.execute("INSERT INTO t VALUES (TRUE, 'p')")
        for name in "ute":
            other.register(name, con.execute(f"SELECT * FROM {name}").fetch_arrow_table())
        used = con if kind == "DuckDB" else other
        assert used.execute(sql.format("0e0")).fetchall() == [("p",)]
        assert used.execute(sql.format("?"), (0.0,)).fetchall() == [("p",)]
        assert used.execute(sql.format("2e0")).fetchall() == []
