"""Windows through SQL: over random tables as DuckDB has them, over streams that end as over the
table of the same rows."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, NotSupportedError
from tests.shared_duckdb import duckdb_over

US = 1_000_000
DAY = 86_400 * US
TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
}
RANGES = {"tinyint": (-90, 90), "smallint": (-3000, 3000), "date": (-400, 400)}


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def random_table(random_: random.Random, kind: str) -> pa.Table:
    low, high = RANGES.get(
        kind, (-4000 * US, 4000 * US) if kind in ("timestamp", "instant") else (-3000, 3000)
    )
    times = [None if random_.random() < 0.05 else random_.randrange(low, high) for _ in range(60)]
    arrow = TYPES[kind]
    column = pa.array(times, pa.int32() if kind == "date" else pa.int64()).cast(arrow)
    keys = pa.array([random_.choice([None, "a", "b", "c"]) for _ in times])
    return pa.table({"t": column, "k": keys, "v": pa.array(range(60), pa.int64())})


def spelled(kind: str, units: int) -> str:
    return (
        f"INTERVAL '{units}' MICROSECOND"
        if kind in ("date", "timestamp", "instant")
        else str(units)
    )


def oracle(table: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    """What DuckDB gives, event times being microseconds or the numbers themselves; `m` is that of
    the row."""
    time = table.column("t")
    if pa.types.is_date(time.type):
        time = time.cast(pa.timestamp("us"))
    table = table.append_column("m", time.cast(pa.int64()))
    with duckdb_over({"r": table.drop_columns(["t"])}) as connection:
        return sorted(connection.execute(sql).fetchall(), key=repr)


def ours(con: Connection, kind: str, call: str) -> list[tuple[Any, ...]]:
    """The rows with their bounds as integers."""
    found = con.execute(
        f"SELECT v, window_start, window_end, window_time FROM {call}"
    ).fetch_arrow_table()
    bounds = [column.cast(pa.int64()).to_pylist() for column in found.columns[1:]]
    bound = pa.timestamp("us") if kind == "date" else TYPES[kind]
    assert [field.type for field in found.schema][1:] == [bound] * 3
    return sorted(zip(found.column(0).to_pylist(), *bounds, strict=True), key=repr)


FLOOR = "(m - ((((m - {offset}) % {period}) + {period}) % {period}))"


def sizes(random_: random.Random, kind: str) -> tuple[int, int, int]:
    """A step, a size that is a multiple of it, and an offset."""
    scale = {"date": DAY, "timestamp": US, "instant": US}.get(kind, 1)
    step = random_.choice([1, 2, 3, 7]) * scale
    return step, step * random_.choice([1, 2, 3]), random_.choice([0, 1, -1, 5]) * scale


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_duckdb(con: Connection, kind: str, seed: int) -> None:
    random_ = random.Random(f"{kind}{seed}")
    table = random_table(random_, kind)
    con.register("t", table)
    step, size, offset = sizes(random_, kind)
    a, b, c = (spelled(kind, units) for units in (step, size, offset))
    tumbling = FLOOR.format(offset=offset, period=size)
    expected = oracle(table, f"SELECT v, {tumbling} AS s, s + {size}, s + {size} - 1 FROM r")
    assert ours(con, kind, f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(t), {b}, {c}))") == expected
    last = FLOOR.format(offset=offset, period=step)
    starts = f"SELECT *, {last} - x.i * {step} AS s FROM r, range({size // step}) x(i)"
    expected = oracle(table, f"SELECT DISTINCT v, s, s + {size}, s + {size} - 1 FROM ({starts})")
    assert ours(con, kind, f"TABLE(HOP(TABLE t, DESCRIPTOR(t), {b}, {a}, {c}))") == expected
    ends = (
        f"SELECT *, {tumbling} AS s, s + x.i * {step} AS e "
        f"FROM r, range(1, {size // step + 1}) x(i)"
    )
    expected = oracle(
        table, f"SELECT DISTINCT v, s, e, e - 1 FROM ({ends}) WHERE e > m OR m IS NULL"
    )
    assert ours(con, kind, f"TABLE(CUMULATE(TABLE t, DESCRIPTOR(t), {a}, {b}, {c}))") == expected


@pytest.mark.parametrize("kind", TYPES)
def test_sessions_are_those_of_duckdb(con: Connection, kind: str) -> None:
    random_ = random.Random(kind)
    table = random_table(random_, kind)
    con.register("t", table)
    gap = {"tinyint": 3, "date": 20 * DAY, "timestamp": 300 * US, "instant": 300 * US}.get(
        kind, 100
    )
    over = "PARTITION BY k, m IS NULL"
    marked = (
        f"SELECT *, CASE WHEN m - LAG(m) OVER ({over} "
        f"ORDER BY m, v) <= {gap} THEN 0 ELSE 1 END AS b FROM r"
    )
    numbered = (
        f"SELECT *, SUM(b) OVER ({over} ORDER BY m, v ROWS UNBOUNDED PRECEDING) AS n "
        f"FROM ({marked})"
    )
    first, last = (f"{name}(m) OVER ({over}, n)" for name in ("MIN", "MAX"))
    expected = oracle(
        table, f"SELECT v, {first}, {last} + {gap}, {last} + {gap} - 1 FROM ({numbered})"
    )
    assert len({row[1] for row in expected}) > 3
    assert (
        ours(
            con,
            kind,
            f"TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(t), {spelled(kind, gap)}))",
        )
        == expected
    )


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
)
def test_windows_are_instants_whatever_the_zone(con: Connection, zone: str) -> None:
    """On the days when clocks change, too: a window of a day has 24 hours."""
    moments = [datetime(2026, 3, 29, hour, 30, tzinfo=UTC) for hour in range(4)]
    moments += [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in range(4)]
    con.register("t", pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))}))
    con.execute(f"SET TIME ZONE '{zone}'")
    for size in (timedelta(hours=1), timedelta(days=1)):
        seconds = int(size.total_seconds())
        rows = con.execute(
            "SELECT t, window_start, window_end, CAST(window_start AS TIMESTAMP) "
            f"FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(t), INTERVAL '{seconds}' SECOND))"
        ).fetchall()
        assert len(rows) == len(moments)
        for moment, start, end, wall in rows:
            epoch = int(moment.timestamp()) // seconds * seconds
            # In the hour that comes twice Python compares by UTC only what is in UTC.
            assert start.astimezone(UTC) == datetime.fromtimestamp(epoch, UTC)
            assert end.astimezone(UTC) - start.astimezone(UTC) == size
            assert wall == start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


QUERIES = {
    "tumble": "SELECT v, window_end FROM TABLE(TUMBLE({}, DESCRIPTOR(t), 10))",
    "hop": "SELECT v, window_start, window_end FROM TABLE(HOP({}, DESCRIPTOR(t), 10, 4, 1))",
    "cumulate": "SELECT v, window_start, window_end FROM TABLE(CUMULATE({}, DESCRIPTOR(t), 3, 12))",
    "session": (
        "SELECT v, window_start, window_end FROM TABLE(SESSION({} PARTITION BY k, DESCRIPTOR(t), "
        "4))"
    ),
    "session of all": (
        "SELECT v, window_start, window_end FROM TABLE(SESSION({}, DESCRIPTOR(t), 1))"
    ),
    "session by expression": (
        "SELECT v, window_end FROM TABLE(SESSION({} PARTITION BY k || 'x', v % 2, DESCRIPTOR(t), "
        "4))"
    ),
    "filtered": (
        "SELECT v, window_end FROM TABLE(TUMBLE({}, DESCRIPTOR(t), 10)) "
        "WHERE k = 'a' AND window_end > 20"
    ),
    "grouped": (
        "SELECT window_end, k, COUNT(*), SUM(v) FROM TABLE(TUMBLE({}, DESCRIPTOR(t), 10)) "
        "GROUP BY window_end, k"
    ),
    "grouped hops": (
        "SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP({}, DESCRIPTOR(t), 9, 3)) "
        "GROUP BY 1, 2"
    ),
    "grouped steps": (
        "SELECT window_end, MAX(v) FROM TABLE(CUMULATE({}, DESCRIPTOR(t), 3, 9)) "
        "GROUP BY window_end"
    ),
    "grouped sessions": "SELECT k, window_start, window_end, COUNT(*) "
    "FROM TABLE(SESSION({} PARTITION BY k, DESCRIPTOR(t), 4)) GROUP BY k, window_start, window_end",
}


def ordered_rows(seed: int) -> pa.Table:
    """Rows out of order by less than 6."""
    random_ = random.Random(seed)
    times = [
        None if random_.random() < 0.03 else i // 2 - random_.randrange(6) - 20 for i in range(400)
    ]
    keys = [random_.choice([None, "a", "b", "c"]) for _ in times]
    return pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "k": pa.array(keys),
            "v": pa.array(range(400), pa.int64()),
        }
    )


def streamed(con: Connection, sql: str, table: pa.Table, seed: int) -> list[tuple[Any, ...]]:
    """What a query gives over a stream of the table's rows, written in pieces."""
    writer = con.register_stream("s", table.schema)
    cursor = con.execute(sql)

    def write() -> None:
        random_, at = random.Random(seed), 0
        while at < table.num_rows:
            count = random_.choice([1, 7, 30])
            writer.write(table.slice(at, count))
            at += count
        writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        return sorted(cursor.fetchall(), key=repr)
    finally:
        thread.join()
        con.unregister("s")


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stream_that_ends_gives_what_the_table_gives(name: str, workers: int) -> None:
    with runnel.connect(query_parallelism=workers) as con:
        table = ordered_rows(workers)
        con.register("r", table)
        expected = sorted(con.execute(QUERIES[name].format("TABLE r")).fetchall(), key=repr)
        ordered = "TABLE(IMPOSE_ORDER(TABLE s, DESCRIPTOR(t), 6))"
        assert streamed(con, QUERIES[name].format(ordered), table, workers) == expected


def test_an_explicit_order_takes_the_place_of_that_of_the_table(con: Connection) -> None:
    writer = con.register_stream(
        "s", pa.schema([("t", pa.int64()), ("u", pa.int64())]), time_column="t", max_disorder=1
    )
    con.execute("CREATE VIEW v AS SELECT u, t FROM s WHERE t > 0")
    for table in ("s", "v"):
        sql = (
            f"SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(t), 10)) "
            "GROUP BY window_end"
        )
        assert "watermark: t - 1" in explained(con, sql)
        sql = sql.replace(
            f"TABLE {table}", f"TABLE(IMPOSE_ORDER(TABLE {table}, DESCRIPTOR(u), 7))"
        ).replace("(t)", "(u)")
        found = explained(con, sql)
        assert "watermark: u - 7" in found
        assert "watermark: t" not in found
    writer.close()


def explained(con: Connection, sql: str) -> str:
    return "\n".join(row[0] for row in con.execute(f"EXPLAIN {sql}").fetchall())


def test_every_order_of_a_statement_has_a_watermark_of_its_own(con: Connection) -> None:
    """Also where views and common tables bring it, so that a join of two tells them apart."""
    writer = con.register_stream(
        "s", pa.schema([("t", pa.int64()), ("k", pa.int64())]), time_column="t", max_disorder=0
    )
    con.execute("CREATE VIEW v AS SELECT * FROM s")
    cursor = con.execute(
        "WITH c AS (SELECT * FROM v) SELECT a.k, b.k "
        "FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(t), 10)) a "
        "JOIN TABLE(TUMBLE(TABLE v, DESCRIPTOR(t), "
        "10)) b ON a.window_end = b.window_end AND a.window_start = b.window_start"
    )
    writer.write([(1, 1), (5, 2), (12, 3)])
    writer.close()
    assert sorted(cursor.fetchall()) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]


def test_sessions_come_while_the_stream_goes_on(con: Connection) -> None:
    writer = con.register_stream(
        "s", pa.schema([("t", pa.int64()), ("k", pa.int64())]), time_column="t", max_disorder=2
    )
    cursor = con.execute(
        "SELECT t, window_start, window_end FROM TABLE(SESSION(TABLE s PARTITION BY k, "
        "DESCRIPTOR(t), 5))"
    )
    writer.write([(1, 1), (4, 1), (3, 2)])
    writer.write([(14, 1)])
    assert sorted(cursor.fetchone() or () for _ in range(3)) == [(1, 1, 9), (3, 3, 8), (4, 1, 9)]
    writer.write([(None, 1)])
    assert cursor.fetchone() == (None, None, None)
    writer.close()
    assert cursor.fetchall() == [(14, 14, 19)]


def test_dates_of_a_stream(con: Connection) -> None:
    table = pa.table({"d": pa.array([date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 9)])})
    writer = con.register_stream("s", table.schema, time_column="d", max_disorder=timedelta(0))
    cursor = con.execute(
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(d), INTERVAL '7' DAY, "
        "INTERVAL '4' DAY)) "
        "GROUP BY window_end"
    )
    writer.write(table)
    assert cursor.fetchone() == (datetime(2026, 3, 2), 1)
    writer.close()
    assert sorted(cursor.fetchall()) == [(datetime(2026, 3, 9), 1), (datetime(2026, 3, 16), 1)]


def test_late_rows_of_sessions_go_where_they_are_said_to(con: Connection) -> None:
    writer = con.register_stream(
        "s", pa.schema([("t", pa.int64()), ("k", pa.int64())]), time_column="t", max_disorder=0
    )
    con.execute("CREATE MAPPING late (t BIGINT, k BIGINT) TYPE DuckDB")
    cursor = con.execute(
        "SELECT k, window_end, COUNT(*) FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), "
        "5)) "
        "GROUP BY k, window_end LATE DATA INTO late"
    )
    writer.write([(1, 1), (3, 1), (30, 2)])
    assert cursor.fetchone() == (1, 8, 2)
    writer.write([(4, 1), (31, 2)])
    writer.close()
    assert cursor.fetchall() == [(2, 36, 2)]
    cursor.close()
    assert con.execute("SELECT t, k FROM late").fetchall() == [(4, 1)]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (
            "GROUP BY window_end + 1 ALLOWED LATENESS 5",
            "ALLOWED LATENESS is not supported over the rows of SESSION",
        ),
        (
            "WHERE window_end > 5 GROUP BY window_end EMIT EVERY INTERVAL '1' SECOND",
            "EMIT EVERY is not supported over the rows",
        ),
        (
            "GROUP BY window_end + 1 EMIT EVERY INTERVAL '1' SECOND",
            "EMIT EVERY is not supported over the rows",
        ),
    ],
)
def test_sessions_that_come_once(con: Connection, rest: str, message: str) -> None:
    con.register_stream("s", pa.schema([("t", pa.int64())]), time_column="t", max_disorder=0)
    with pytest.raises(NotSupportedError, match=message):
        con.execute(f"SELECT COUNT(*) FROM TABLE(SESSION(TABLE s, DESCRIPTOR(t), 5)) {rest}")


def test_what_is_kept(con: Connection) -> None:
    session = "TABLE(SESSION(TABLE clicks PARTITION BY k, DESCRIPTOR(n), 5)) GROUP BY window_end, k"
    tumble = "TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(n), 5)) GROUP BY window_end, k"
    con.register_stream("clicks", {"n": "BIGINT", "k": "BIGINT"}, time_column="n")
    for rest, kept in (
        (session, "a row for each session, until the watermark is past its end"),
        (tumble, "a row for each group, until the watermark completes its window_end"),
        (
            f"{tumble} ALLOWED LATENESS 7",
            "a row for each group, until the watermark is 7 past its window_end",
        ),
    ):
        found = con.execute(
            f"EXPLAIN (STATE) SELECT window_end, k, COUNT(*) FROM {rest}"
        ).fetchall()
        assert f"(keeps: {kept})" in found[0][0]
    query = f"SELECT window_end, k, COUNT(DISTINCT n) FROM {tumble} ALLOWED LATENESS 7"
    found = con.execute(f"EXPLAIN (STATE) {query}").fetchall()
    assert "; must fit in memory: all, because emitted results may change)" in found[0][0]


def test_describe_tells_the_watermark(con: Connection, tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("n,ts\n1,2024-01-01 00:00:00\n")
    con.execute(
        "CREATE MAPPING clicks (n INT, ts TIMESTAMP, "
        "WATERMARK FOR ts AS ts - INTERVAL '1.5' SECOND) TYPE File "
        f"OPTIONS ('path'='{tmp_path}', 'format'='csv', 'follow'='true', "
        "'idleTimeoutMillis'='250')"
    )
    assert con.execute("DESCRIBE clicks").fetchall() == [
        ("n", "INTEGER", "YES", None, None, None),
        (
            *("ts", "TIMESTAMP", "YES", None, None),
            "watermark ts - INTERVAL '1.5' SECOND, idle after 250 ms",
        ),
    ]
    con.register_stream("s", {"t": "BIGINT", "odd name": "DATE"}, time_column="t", max_disorder=7)
    assert con.execute("SHOW COLUMNS FROM s").fetchall()[0][3] == "t - 7, idle after 1000 ms"
    con.register_stream(
        "o", {"odd name": "DATE"}, time_column="odd name", idle_timeout=timedelta(0)
    )
    assert con.execute("DESCRIBE o").fetchall() == [
        ("odd name", "DATE", "YES", None, None, "watermark odd name, never idle")
    ]
    con.execute("CREATE VIEW v AS SELECT ts FROM clicks")
    assert con.execute("DESCRIBE v").fetchall() == [("ts", "TIMESTAMP", "YES", None, None, None)]
    assert (
        "idleTimeoutMillis"
        in con.execute(
            "SELECT CAST(mapping_options AS VARCHAR) FROM information_schema.mappings "
            "WHERE table_name = 'clicks'"
        ).fetchall()[0][0]
    )
