"""LATE DATA INTO below grouping sets, and of what was late for SESSION: each late row comes
once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection
from runnel.catalog import EventTime
from runnel.expressions.nodes import Column
from runnel.processor import Watermark
from runnel.processors.stateful.late_filter import late_filter
from runnel.processors.stateful.row_buffer import Buffering
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from runnel.testing.rows import rows_of
from tests.processors.time_windows.test_timed_aggregate import feed, made_of
from tests.streams.scripted_table import ScriptedTable
from tests.waiting import eventually

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
ROWS = [(1, 1, 1), (100, 1, 2), (2, 7, 3), (103, 1, 4), (3, 7, None), (200, None, 5), (104, 1, 6)]
LATE = {(2, 7, 3), (3, 7, None), (104, 1, 6)}
TIME = Column(index=0, name="t", type=BIGINT)


def batches(rows: list[tuple[Any, ...]]) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pylist([dict(zip("tkv", row, strict=True))], SCHEMA) for row in rows
    ]


@pytest.fixture
def con() -> Iterator[Connection]:
    """With the stream s, in order of t, whose rows come one by one."""
    with runnel.connect(query_parallelism=1) as connection:
        connection._register("s", ScriptedTable("s", SCHEMA, [batches(ROWS)], EventTime(0, 0, 0)))
        connection.register(
            "names", pa.table({"k": pa.array([1, 7], pa.int64()), "name": ["one", "seven"]})
        )
        connection.execute("CREATE MAPPING late (t BIGINT, k BIGINT, v BIGINT) TYPE DuckDB")
        yield connection


TUMBLE, HOP = (
    "TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10))",
    "TABLE(HOP(TABLE s, DESCRIPTOR(t), 10, 5))",
)
SESSION, BY_KEY = (
    "TABLE(SESSION(TABLE s, DESCRIPTOR(t), 5))",
    "TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), 5))",
)
SETS = (
    "GROUPING SETS ((window_end, k), (window_end))",
    "window_end, ROLLUP (k, v)",
    "window_end, CUBE (k, v)",
    "GROUPING SETS ((window_end, k), (window_end, k), (window_end, window_start))",
)


def once(connection: Connection, mapping: str) -> set[tuple[Any, ...]]:
    """The rows of a mapping, none of which comes twice."""
    rows = connection.execute(f"SELECT * FROM {mapping}").fetchall()
    assert len(set(rows)) == len(rows)
    return set(rows)


@pytest.mark.parametrize("group", SETS)
@pytest.mark.parametrize(
    ("source", "clause"),
    [(TUMBLE, ""), (TUMBLE, " EMIT EVERY INTERVAL '1' HOUR"), (SESSION, ""), (BY_KEY, "")],
)
def test_a_late_row_comes_once_for_all_sets(
    con: Connection, source: str, group: str, clause: str
) -> None:
    sql = (
        "SELECT window_end, COUNT(*), COUNT(DISTINCT v), SUM(v) FILTER (WHERE v > 1) "
        f"FROM {source} w GROUP BY {group}"
    )
    con.execute(f"{sql}{clause} LATE DATA INTO late", timeout=60).fetchall()
    assert once(con, "late") == LATE


def test_of_windows_that_overlap_once_for_each_that_was_missed(con: Connection) -> None:
    con.execute("CREATE MAPPING missed (window_end BIGINT, t BIGINT) TYPE DuckDB")
    con.execute(
        f"SELECT window_end, k, v FROM {HOP} w GROUP BY window_end, CUBE (k, v) "
        "LATE DATA INTO missed",
        timeout=60,
    ).fetchall()
    found = sorted(con.execute("SELECT * FROM missed").fetchall())
    assert found == [(5, 2), (5, 3), (10, 2), (10, 3), (105, 104), (110, 104)]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "sql",
    [
        (
            f"SELECT window_end, COUNT(*) FROM {SESSION} w LEFT JOIN names n ON n.k = w.k "
            "GROUP BY window_end, n.name"
        ),
        (
            f"SELECT window_end, COUNT(*) FROM {SESSION} w LEFT JOIN names n ON n.k = w.k "
            "GROUP BY window_end, ROLLUP (n.name)"
        ),
        (
            f"SELECT window_end, COUNT(*) FROM (SELECT *, v + 1 AS x FROM {SESSION}) w "
            "GROUP BY window_end, x"
        ),
        f"SELECT window_end, SUM(v) OVER (PARTITION BY window_end) FROM {SESSION} w",
        f"SELECT window_end, v FROM {SESSION} w ORDER BY window_end",
    ],
)
def test_what_is_late_for_a_session_comes_through_what_stands_above(
    con: Connection, sql: str, parallelism: int
) -> None:
    con.execute(f"SET query_parallelism = {parallelism}")
    con.execute("CREATE MAPPING pairs (t BIGINT, v BIGINT) TYPE DuckDB")
    con.execute(f"{sql} LATE DATA INTO pairs", timeout=60).fetchall()
    assert once(con, "pairs") == {(t, v) for t, _, v in LATE}


@pytest.mark.parametrize("late", ["", " LATE DATA INTO late"])
def test_late_rows_are_counted_once(
    con: Connection, late: str, caplog: pytest.LogCaptureFixture
) -> None:
    con.execute(
        f"SELECT window_end, k FROM {TUMBLE} w GROUP BY window_end, CUBE (k, v){late}", timeout=60
    ).fetchall()
    told = [record.getMessage() for record in caplog.records if "late event" in record.getMessage()]
    assert "3 in all" in told[-1]


@pytest.mark.parametrize("group", ["window_end, ROLLUP (k)", "window_end, n.name"])
@pytest.mark.parametrize("clause", ["EMIT EVERY INTERVAL '1' SECOND", "ALLOWED LATENESS 5"])
def test_results_that_come_again_are_refused_over_the_rows_of_sessions(
    con: Connection, clause: str, group: str
) -> None:
    """They waited until their session was complete, and late ones were left out, whatever stands in
    between."""
    join = " JOIN names n ON n.k = w.k" if "n." in group else ""
    with pytest.raises(runnel.NotSupportedError, match="not supported over the rows of SESSION"):
        con.execute(f"SELECT window_end, COUNT(*) FROM {SESSION} w{join} GROUP BY {group} {clause}")


def test_the_mapping_takes_columns_by_position_too(con: Connection) -> None:
    con.execute("CREATE MAPPING other (a BIGINT, b BIGINT, c BIGINT) TYPE DuckDB")
    sql = f"SELECT window_end FROM {TUMBLE} w GROUP BY window_end, ROLLUP (k) LATE DATA INTO other"
    con.execute(sql, timeout=60).fetchall()
    assert once(con, "other") == LATE


def test_explain_shows_the_filter(con: Connection) -> None:
    plan = "\n".join(
        line
        for (line,) in con.execute(
            f"EXPLAIN SELECT k FROM {TUMBLE} w GROUP BY window_end, ROLLUP (k) LATE DATA INTO late"
        )
    )
    plan = plan[plan.index("Physical plan") :]
    assert plan.index("Expand, 2 times") < plan.index("Late filter") < plan.index("Tumble windows")


def supplier(lateness: int) -> Any:
    return late_filter(
        Buffering(
            ((TIME, TimeBound(1)), (Column(index=1, name="k", type=BIGINT), TimeBound(2, 1)))
        ),
        lateness,
    )


ITEMS = [
    *batches([(1, 9, 0), (8, 9, 1)]),
    Watermark(6, 1),
    *batches([(5, 9, 2), (6, 9, 3), (None, 9, 4)]),
    Watermark(9, 2),
]
MORE = [*batches([(7, 9, 5), (7, 10, 6), (7, None, 7), (5, 1, 8)])]


@pytest.mark.parametrize(("lateness", "late"), [(0, [2, 5, 8]), (1, [8]), (9, [])])
def test_rows_behind_a_watermark_take_the_other_output(lateness: int, late: list[int]) -> None:
    def numbers(found: list[Any]) -> list[int]:
        return sorted(
            row[2] for item in found if isinstance(item, pa.RecordBatch) for row in rows_of([item])
        )

    processor, outbox = made_of(supplier(lateness))
    outbox.outputs.append([])
    feed(processor, [*ITEMS, *MORE])
    assert processor.late_rows == len(late)
    assert numbers(outbox.outputs[1]) == late
    assert numbers(outbox.outputs[0]) == [number for number in range(9) if number not in late]


def test_each_row_takes_one_output_under_all_conditions() -> None:
    late: list[int] = []

    def in_time(found: list[Any]) -> None:
        late[:] = set(range(9)) - {
            row[2] for item in found if isinstance(item, pa.RecordBatch) for row in rows_of([item])
        }

    def rest(found: list[Any]) -> None:
        assert sorted(
            row[2] for item in found if isinstance(item, pa.RecordBatch) for row in rows_of([item])
        ) == sorted(late)

    options: dict[str, Any] = {"outputs": 2, "row_by_row": False}
    verify_processor(supplier(0), [[*ITEMS, *MORE]], (in_time, rest), **options)


def test_more_lateness_than_before_doesnt_bring_back_what_was_late() -> None:
    old, _ = made_of(supplier(1))
    feed(old, ITEMS)
    processor, outbox = made_of(supplier(50))
    outbox.outputs.append([])
    for state in old.state():
        processor.restore_snapshot(state)
    assert processor.finish_restore()
    feed(processor, batches([(4, 20, 0), (5, 20, 1)]))
    assert [
        row[2] for row in rows_of([b for b in outbox.outputs[1] if isinstance(b, pa.RecordBatch)])
    ] == [0]


@pytest.mark.parametrize("kind", ["TUMBLE", "SESSION"])
def test_a_job_that_restarts(tmp_path: Path, kind: str) -> None:
    """Late rows are written once, by the watermark from before the restart; the clause may come and
    go."""
    (tmp_path / "in").mkdir()
    windows = f"TABLE({kind}(TABLE s, DESCRIPTOR(t), 10))"
    query = (
        f"INSERT INTO o SELECT window_end, k, COUNT(*) FROM {windows} w "
        "GROUP BY window_end, ROLLUP (k)"
    )

    def written(connection: Connection, name: str, lines: str, count: int) -> None:
        (tmp_path / "in" / f"{name}.csv").write_text(lines)
        # The counters begin with the process.
        assert eventually(lambda: connection.job("j").rows_in == count)
        connection.execute("CREATE OR REPLACE SNAPSHOT x FOR JOB j", timeout=20)

    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(
            "CREATE MAPPING s (t BIGINT, k BIGINT, WATERMARK FOR t AS t) TYPE File "
            f"OPTIONS ('path'='{tmp_path / 'in'}', 'format'='csv', 'header'='false', "
            "'follow'='true')"
        )
        connection.execute("CREATE MAPPING o (e BIGINT, k BIGINT, n BIGINT) TYPE DuckDB")
        connection.execute("CREATE MAPPING late (t BIGINT, k BIGINT) TYPE DuckDB")
        connection.execute(f"CREATE JOB j AS {query} LATE DATA INTO late")
        written(connection, "a", "1,1\n100,1\n", 2)
        written(connection, "b", "2,1\n101,2\n", 4)
    with runnel.connect(tmp_path / "db") as connection:
        written(connection, "c", "3,1\n102,2\n", 2)
        connection.execute(f"ALTER JOB j AS {query}", timeout=20)
        written(connection, "d", "4,1\n103,2\n", 2)
        connection.execute(f"ALTER JOB j AS {query} LATE DATA INTO late", timeout=20)
        written(connection, "e", "5,1\n200,1\n", 2)
        found = connection.execute("SELECT * FROM late ORDER BY t").fetchall()
        assert found == [(2, 1), (3, 1), (5, 1)]
        ends = (10, 110) if kind == "TUMBLE" else (11, 113)
        wanted = [
            (ends[0], 1, 1),
            (ends[0], None, 1),
            (ends[1], 1, 1),
            (ends[1], 2, 3),
            (ends[1], None, 4),
        ]
        assert eventually(
            lambda: (
                sorted(connection.execute("SELECT * FROM o").fetchall(), key=str)
                == sorted(wanted, key=str)
            )
        )
