"""What streaming engines have gone wrong at elsewhere, each with a test of its name, through SQL as
a user writes it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, DataError, OperationalError, ProgrammingError
from runnel.catalog import EventTime
from runnel.connector import EventTimeMark
from runnel.connectors.pushed.table import StreamWriter
from runnel.errors import ErrorCode
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.streams.random_queries.simulated import kept_by, until_held
from tests.streams.scripted_table import HOLD, IDLE, Entry, ScriptedTable

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
COUNTS = (
    "SELECT window_end, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), 10)) "
    "GROUP BY window_end"
)


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def stream(con: Connection, name: str = "s", lag: int = 0) -> StreamWriter:
    return con.register_stream(
        name, SCHEMA, time_column="t", max_disorder=lag, idle_timeout=timedelta(0)
    )


def taken(cursor: runnel.Cursor, count: int) -> list[Any]:
    return sorted((cursor.fetchone() for _ in range(count)), key=repr)


def batch(*rows: tuple[int | None, int | None, int | None]) -> pa.RecordBatch:
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def script(
    con: Connection, name: str, *scripts: Sequence[Entry], idle: int = 0, lag: int = 0
) -> ScriptedTable:
    """A stream that follows scripts; idle after so many milliseconds (0: never)."""
    table = ScriptedTable(name, SCHEMA, scripts, EventTime(0, lag, idle))
    con._register(name, table)
    return table


def simulation(con: Connection, sql: str, seed: int = 1, parallelism: int = 2) -> Simulation:
    plan: Any = con._session.prepare(sql, ())
    return Simulation(plan.dag(parallelism), seed, SimulationOptions(parallelism=parallelism))


def test_rows_held_back_until_a_batch_fills(con: Connection) -> None:
    writer = stream(con)
    for sql in (
        "SELECT v + 1 FROM s WHERE k > 0",
        "SELECT x.v FROM s x JOIN s y ON x.k = y.k AND x.t = y.t",
    ):
        cursor = con.execute(sql)
        for number in range(3):
            writer.write([(number, 1, number)])
            assert len(cursor.fetchone() or ()) == 1
        cursor.close()


def test_last_window_never_flushed_at_end_of_input(con: Connection) -> None:
    for window in (
        "TUMBLE(TABLE s, DESCRIPTOR(t), 10)",
        "HOP(TABLE s, DESCRIPTOR(t), 10, 10)",
        "SESSION(TABLE s, DESCRIPTOR(t), 9)",
    ):
        writer = stream(con)
        cursor = con.execute(f"SELECT COUNT(*), SUM(v) FROM TABLE({window}) GROUP BY window_end")
        writer.write([(1, 1, 5), (2, 1, 6)])
        writer.close()
        assert cursor.fetchall() == [(2, 11)]


def test_a_session_split_by_a_batch_boundary(con: Connection) -> None:
    writer = stream(con, lag=100)
    cursor = con.execute(
        "SELECT window_start, window_end, k, COUNT(*) "
        "FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), 5)) "
        "GROUP BY window_start, window_end, k"
    )
    for time in (10, 20, 15, 5, 0, 31):
        writer.write([(time, 1, 1)])
        writer.write([(time, 2, 1)] if time % 10 == 0 else [])
    writer.close()
    expected = [(0, 5, 2, 1), (0, 25, 1, 5), (10, 15, 2, 1), (20, 25, 2, 1), (31, 36, 1, 1)]
    assert sorted(cursor.fetchall()) == expected


def test_a_hop_window_split_into_its_slices(con: Connection) -> None:
    """A window has the rows of all of its slices, those that slices repeat counted once."""
    writer = stream(con)
    cursor = con.execute(
        "SELECT window_start, window_end, COUNT(*), COUNT(DISTINCT v) "
        "FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 6, 2)) "
        "GROUP BY window_start, window_end"
    )
    writer.write([(time, 1, 7) for time in range(4)])
    writer.close()
    assert sorted(cursor.fetchall()) == [(-4, 2, 2, 1), (-2, 4, 4, 1), (0, 6, 4, 1), (2, 8, 2, 1)]


def test_windows_before_1970(con: Connection) -> None:
    writer = stream(con, lag=50)
    cursor = con.execute(COUNTS.format("s"))
    writer.write([(-1, 1, 1), (-10, 1, 1), (-11, 1, 1), (0, 1, 1)])
    writer.close()
    assert sorted(cursor.fetchall()) == [(-10, 1, 1), (0, 2, 2), (10, 1, 1)]


def test_a_window_offset_ignored(con: Connection) -> None:
    for offset in (3, -7, 13):
        writer = stream(con)
        window = f"TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10, {offset}))"
        cursor = con.execute(
            f"SELECT window_start, window_end, COUNT(*) FROM {window} "
            "GROUP BY window_start, window_end"
        )
        writer.write([(2, 1, 1), (3, 1, 1), (12, 1, 1)])
        writer.watermark(13)
        assert taken(cursor, 2) == [(-7, 3, 1), (3, 13, 2)]
        writer.close()


@pytest.mark.parametrize("ahead", ["a", "b"])
def test_one_global_watermark_for_two_inputs(con: Connection, ahead: str) -> None:
    """One stream is far ahead; rows of the other are not late for that."""
    writers = {name: stream(con, name) for name in "ab"}
    union = con.execute(
        COUNTS.format("a").replace("TABLE a", "(SELECT * FROM a UNION ALL SELECT * FROM b)")
    )
    windows = (
        "(SELECT window_end, SUM(v) AS v FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), 10)) w "
        "GROUP BY window_end)"
    )
    join = con.execute(
        f"SELECT x.window_end, x.v, y.v FROM {windows.format('a')} x "
        f"JOIN {windows.format('b')} y USING (window_end)"
    )
    writers[ahead].write([(1, 1, 1), (5_000, 1, 1)])
    behind = writers["b" if ahead == "a" else "a"]
    for time in (1, 2, 11):
        behind.write([(time, 1, 10)])
    assert union.fetchone() == (10, 3, 21)
    assert join.fetchone() == (10, *((1, 20) if ahead == "a" else (20, 1)))
    for writer in writers.values():
        writer.close()
    assert sorted(union.fetchall()) == [(20, 1, 10), (5_010, 1, 1)]
    assert join.fetchall() == []


def test_late_rows_aggregated_anyway(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(COUNTS.format("s"))
    writer.write([(1, 1, 1), (12, 1, 1)])
    assert cursor.fetchone() == (10, 1, 1)
    writer.write([(2, 1, 100), (13, 1, 1)])
    writer.watermark(20)
    assert cursor.fetchone() == (20, 2, 2), "late for its own window only"
    (job,) = con.jobs()
    assert job.late_rows == 1, "and it is counted"
    writer.close()
    assert cursor.fetchall() == []


def test_rows_behind_the_watermark_lost_though_their_window_is_open(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(COUNTS.format("s"))
    writer.write([(19, 1, 1)])
    writer.write([(11, 1, 1)])
    writer.close()
    assert cursor.fetchall() == [(20, 2, 2)]


def test_a_far_future_row_making_its_own_batch_late(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(COUNTS.format("s"))
    writer.write([(1, 1, 1), (1_000_000, 1, 1), (2, 1, 1), (15, 1, 1)])
    assert taken(cursor, 2) == [(10, 2, 2), (20, 1, 1)]
    writer.close()


def test_semi_and_anti_joins_run_as_inner(con: Connection) -> None:
    near = "(SELECT 1 FROM b y WHERE y.k = x.k AND y.t BETWEEN x.t - 5 AND x.t + 5)"
    for exists, expected in (("EXISTS", [(1,), (2,)]), ("NOT EXISTS", [(3,), (4,)])):
        a, b = stream(con, "a"), stream(con, "b")
        cursor = con.execute(f"SELECT x.v FROM a x WHERE {exists} {near}")
        b.write([(1, 1, 0), (1, 1, 0), (2, 1, 0), (3, 2, 0)])
        a.write([(1, 1, 1), (2, 1, 2), (50, 2, 3), (51, None, 4)])
        a.close(), b.close()
        assert sorted(cursor.fetchall()) == expected


def test_temporal_tables_never_pruned(con: Connection) -> None:
    """Of a key's many versions the newest is kept."""
    versions = [batch(*((100 * at + n, n % 4, n) for n in range(100))) for at in range(60)]
    script(con, "a", [batch((5_900, 1, 0), (6_500, 1, 0)), HOLD])
    script(con, "b", [*versions, batch((7_000, 99, 0)), HOLD])
    run = simulation(
        con,
        "SELECT x.t, r.t, r.v FROM a x JOIN b FOR SYSTEM_TIME AS OF x.t AS r ON x.k = r.k",
        parallelism=1,
    )
    assert sorted(until_held(run)) == [(5_900, 5_897, 97), (6_500, 5_997, 97)]
    assert sum(kept_by(run).values()) <= 4_300, "what the operator has not looked through yet"
    more = [batch(*((7_000 + 100 * at + n, n % 4, n) for n in range(100))) for at in range(60)]
    script(con, "a", [batch((13_500, 1, 0)), HOLD])
    script(con, "b", [*versions, *more, HOLD])
    again = simulation(
        con,
        "SELECT x.t, r.t, r.v FROM a x JOIN b FOR SYSTEM_TIME AS OF x.t AS r ON x.k = r.k",
        parallelism=1,
    )
    until_held(again)
    assert sum(kept_by(again).values()) <= 4_300, "twice the versions take no more room"


def test_a_cap_that_drops_new_keys(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(
        "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 10)) GROUP BY window_end, k"
    )
    keys = pa.array(range(150_000), pa.int64())
    for start in range(0, 150_000, 50_000):
        piece = keys.slice(start, 50_000)
        writer.write(
            pa.RecordBatch.from_arrays(
                [pa.array([1] * 50_000, pa.int64()), piece, piece], schema=SCHEMA
            )
        )
    writer.close()
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 150_000
    assert set(table.column(1).to_pylist()) == {1}
    assert len(set(table.column(0).to_pylist())) == 150_000


def test_no_back_pressure_so_that_memory_grows(con: Connection) -> None:
    """Who doesn't fetch stops the writer, after a bounded number of rows."""
    writer = stream(con)
    cursor = con.execute("SELECT * FROM s")
    rows = pa.RecordBatch.from_arrays([pa.array(range(65_536), pa.int64())] * 3, schema=SCHEMA)
    written = 0
    with pytest.raises(OperationalError) as caught:
        for _ in range(500):
            written += writer.write(rows, timeout=0.2)
    assert caught.value.code == ErrorCode.TIMEOUT
    assert written <= 100 * 65_536
    assert len(cursor.fetchmany(1_000)) == 1_000
    cursor.close()


def test_memory_not_given_back_after_close(con: Connection) -> None:
    gc.collect()
    before = pa.total_allocated_bytes()
    writer = stream(con, lag=1 << 40)
    other = stream(con, "b", lag=1 << 40)
    cursors = [con.execute(COUNTS.format("s").replace("SELECT", "SELECT k,") + ", k")]
    cursors.append(
        con.execute(
            "SELECT * FROM s x LEFT JOIN b y ON x.k = y.k AND y.t BETWEEN x.t - 100 AND x.t + 100"
        )
    )
    cursors.append(
        con.execute(
            "SELECT t, window_end FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), 5))"
        )
    )
    for start in range(0, 200_000, 20_000):
        numbers = pa.array(range(start, start + 20_000), pa.int64())
        writer.write(pa.RecordBatch.from_arrays([numbers] * 3, schema=SCHEMA))
        del numbers
    other.write([(1, 1, 1)])
    assert cursors[1].fetchone() is not None
    held = pa.total_allocated_bytes() - before
    assert held > 2_000_000
    jobs = con.jobs()
    assert len(jobs) == 3
    for cursor in cursors:
        cursor.close()
    writer.close(), other.close()
    assert all(job.wait(60) for job in jobs)
    assert con.jobs() == []
    for name in "sb":
        con.unregister(name)
    gc.collect()
    assert pa.total_allocated_bytes() - before < held / 10


def test_null_keys_that_join(con: Connection) -> None:
    for kind, expected in (("JOIN", 0), ("LEFT JOIN", 1), ("FULL JOIN", 2)):
        a, b = stream(con, "a"), stream(con, "b")
        interval = con.execute(
            f"SELECT x.v, y.v FROM a x {kind} b y ON x.k = y.k AND y.t BETWEEN x.t - 5 AND x.t + 5"
        )
        windows = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), 10))"
        on = "x.window_start = y.window_start AND x.window_end = y.window_end AND x.k = y.k"
        window = con.execute(
            f"SELECT x.v, y.v FROM {windows.format('a')} x {kind} {windows.format('b')} y ON {on}"
        )
        a.write([(1, None, 1)])
        b.write([(1, None, 2)])
        a.close(), b.close()
        rows = interval.fetchall()
        assert len(rows) == expected
        assert (1, 2) not in rows
        assert sorted(window.fetchall(), key=repr) == sorted(rows, key=repr)


def test_a_shared_mutable_default_connection(con: Connection) -> None:
    writer = stream(con)
    with runnel.connect() as other:
        with pytest.raises(ProgrammingError, match='"s" not found'):
            other.execute("SELECT * FROM s")
        own = stream(other)
        cursor, theirs = con.execute("SELECT v FROM s"), other.execute("SELECT v FROM s")
        writer.write([(1, 1, 1)])
        own.write([(1, 1, 2)])
        assert (cursor.fetchone(), theirs.fetchone()) == ((1,), (2,))
    writer.write([(2, 1, 3)])
    assert cursor.fetchone() == (3,)


def test_a_stale_plan_after_a_view_or_type_changed(con: Connection) -> None:
    stream(con)
    con.execute("CREATE VIEW shown AS SELECT t, v FROM s")
    sql = (
        "SELECT window_end, MAX(v) FROM TABLE(TUMBLE(TABLE shown, DESCRIPTOR(t), 10)) "
        "GROUP BY window_end"
    )
    con.execute(sql).close()
    con.execute("CREATE OR REPLACE VIEW shown AS SELECT t, -v AS v FROM s")
    writer = con.register_stream(
        "s", {"t": "BIGINT", "k": "BIGINT", "v": "DOUBLE"}, time_column="t", max_disorder=0
    )
    cursor = con.execute(sql)
    writer.write([(1, 1, 1.5), (2, 1, 2.5)])
    writer.close()
    assert cursor.fetchall() == [(10, -1.5)]


def test_integer_overflow_that_wraps(con: Connection) -> None:
    for rows in ([(1, 1, 1 << 62), (2, 1, 1 << 62)], [((1 << 63) - 1, 1, 1)], [(-(1 << 63), 1, 1)]):
        writer = stream(con)
        cursor = con.execute(COUNTS.format("s"))
        writer.write(rows)
        writer.close()
        with pytest.raises(DataError):
            cursor.fetchall()


def test_an_idle_input_that_holds_back_the_other(con: Connection) -> None:
    """Nothing comes of one input; after its time-out, in virtual time, the results of the other
    come all the same."""
    union = COUNTS.format("a").replace("TABLE a", "(SELECT * FROM a UNION ALL SELECT * FROM b)")
    for idle, expected in ((250, [(10, 1, 1)]), (0, [])):
        script(con, "a", [batch((1, 1, 1), (15, 1, 1)), HOLD])
        script(con, "b", [HOLD], idle=idle)
        run = simulation(con, union)
        assert until_held(run) == expected
        assert (run.clock.monotonic() > 0) == bool(idle)


@pytest.mark.parametrize("idle_too", [0, 250])
def test_an_input_of_a_join_that_falls_idle_behind_the_last_row_of_the_other(
    con: Connection, idle_too: int
) -> None:
    """No further watermark comes that its own could go along with; whether the other is idle as
    well doesn't matter."""
    for sql, expected in (
        ("SELECT x.t, y.t FROM a x LEFT JOIN b y ON x.t = y.t", [(1, None)]),
        ("SELECT x.t, y.t FROM b y RIGHT JOIN a x ON x.t = y.t", [(1, None)]),
        (
            (
                "SELECT x.t FROM a x WHERE NOT EXISTS (SELECT 1 FROM b y "
                "WHERE y.t BETWEEN x.t AND x.t + 2)"
            ),
            [(1,)],
        ),
        (
            "SELECT x.t, y.t FROM a x LEFT JOIN b FOR SYSTEM_TIME AS OF x.t AS y ON x.k = y.k",
            [(1, None)],
        ),
        (
            (
                f"SELECT x.window_end, n FROM ({COUNTS.format('a')}) x "
                "LEFT JOIN (SELECT window_end, COUNT(*) AS n FROM TABLE("
                "TUMBLE(TABLE b, DESCRIPTOR(t), 10)) GROUP BY "
                "window_end) y ON x.window_end = y.window_end"
            ),
            [(10, None)],
        ),
        (
            COUNTS.format("a").replace(
                "TABLE a", "(SELECT x.t, x.v FROM a x LEFT JOIN b y ON x.t = y.t)"
            ),
            [(10, 1, 1)],
        ),
    ):
        script(con, "a", [batch((1, 1, 1)), batch((15, 1, 1)), HOLD], idle=idle_too)
        script(con, "b", [batch((0, 2, 1)), HOLD], idle=250)
        for seed in range(5):
            found = until_held(simulation(con, sql, seed))
            assert [row for row in found if row[0] not in (0, 15)] == expected, sql


def test_rows_of_a_partition_that_falls_idle_are_late(con: Connection) -> None:
    """What it brought before counts, though the other partitions go on without it."""
    rows = [batch(*((time, time % 3, 1) for time in range(5))), IDLE, HOLD]
    for seed in range(20):
        script(con, "s", rows, [batch((3, 1, 1), (50, 1, 1)), HOLD], idle=250)
        run = simulation(con, COUNTS.format("s"), seed)
        assert until_held(run) == [(10, 6, 6)]


def test_a_source_that_comes_back_is_not_overtaken_on_another_way(con: Connection) -> None:
    """Two processors group its rows, and one has told of the rows after the idle time before the
    other has."""
    sql = COUNTS.format("s")
    rows = [batch((time, time % 5, 1)) for time in range(5, 95)]
    script(con, "s", [batch((0, 1, 1)), IDLE, *rows, IDLE, batch((95, 1, 1))], idle=250)
    expected = [(10, 6, 6), *((end, 10, 10) for end in range(20, 100, 10)), (100, 6, 6)]
    for seed in some(range(15), 3):
        run = simulation(con, sql, seed)
        assert sorted(rows_of(run.run())) == expected
        assert sum(tasklet.counts().late_rows for tasklet in run.execution.tasklets) == 0


def test_null_times_and_empty_streams(con: Connection) -> None:
    a, b = stream(con, "a"), stream(con, "b")
    cursor = con.execute(COUNTS.format("a"))
    empty = con.execute(COUNTS.format("b"))
    joined = con.execute("SELECT x.v, y.v FROM a x FULL JOIN b y ON x.t = y.t")
    a.write([(None, 1, 1), (3, 1, 1), (None, 1, 2)])
    a.close(), b.close()
    assert sorted(cursor.fetchall(), key=repr) == [(10, 1, 1), (None, 2, 3)]
    assert empty.fetchall() == []
    assert sorted(joined.fetchall()) == [(1, None), (1, None), (2, None)]


def test_equal_timestamps_across_batches(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(COUNTS.format("s"))
    for _ in range(30):
        writer.write([(10, 1, 1)])
    writer.write([(20, 1, 1)])
    assert cursor.fetchone() == (20, 30, 30)
    writer.close()
    assert cursor.fetchall() == [(30, 1, 1)]


def test_a_limit_ends_the_query(con: Connection) -> None:
    writer = stream(con)
    cursor = con.execute(COUNTS.format("s") + " LIMIT 2")
    writer.write([(time, 1, 1) for time in range(0, 60, 10)])
    jobs = con.jobs()
    assert len(cursor.fetchall()) == 2
    assert all(job.wait(60) for job in jobs)
    assert con.jobs() == []


def test_state_of_closed_windows_kept(con: Connection) -> None:
    """After many windows the state is that of the open ones."""
    script(
        con, "s", [*(batch(*((at * 10 + n, n, 1) for n in range(10))) for at in range(100)), HOLD]
    )
    for sql in (
        COUNTS.format("s"),
        COUNTS.format("s").replace("TUMBLE", "HOP").replace(", 10)", ", 10, 5)"),
        COUNTS.format("s"),
    ):
        run = simulation(con, sql)
        assert len(until_held(run)) >= 99
        assert sum(kept_by(run).values()) <= 4
    run = simulation(
        con, "SELECT x.v FROM s x JOIN s y ON x.k = y.k AND y.t BETWEEN x.t - 10 AND x.t + 10"
    )
    assert len(rows_of(until_held(run))) == 2_980
    assert sum(kept_by(run).values()) <= 60


def test_results_that_wait_for_the_next_row_after_the_watermark(con: Connection) -> None:
    rows = [batch((time, time % 3, 1)) for time in range(40)]
    sql = (
        "SELECT t, SUM(v) OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 7 PRECEDING AND 3 "
        "FOLLOWING) FROM s"
    )
    for seed in some(range(15), 3):
        script(
            con,
            "s",
            [*rows[:20], EventTimeMark(10_000), HOLD],
            [*rows[20:], EventTimeMark(10_000), HOLD],
            lag=20,
        )
        assert len(until_held(simulation(con, sql, seed, parallelism=3))) == 40
