"""ALTER JOB with other windows: state is recombined, exactly where EXPLAIN says so, and as the docs
say where it doesn't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runnel
from runnel import Connection
from tests.effort import examples
from tests.jobs.state_evolution.recombined import (
    Result,
    Row,
    Shape,
    cumulate,
    given_after,
    given_before,
    hop,
    over_all,
    tumble,
)
from tests.waiting import eventually

PATIENCE = 20
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64())])
VALUES = "COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi"
EXACT = "exact from the first window on"


def query(shape: Shape, values: str, more: str = "") -> str:
    return (
        f"INSERT INTO m SELECT window_end * 100 + k, {values} FROM TABLE({shape.sql()}) "
        f"GROUP BY window_end, k {more}"
    )


@contextmanager
def streaming(parallelism: int, columns: str = "n, s, lo, hi") -> Iterator[tuple[Connection, Any]]:
    """A connection with a stream `s` and a map `m`, in which a key may come once only."""
    with runnel.connect() as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        types = ", ".join(f"{name} BIGINT" for name in columns.split(", "))
        options = "'keyFormat'='bigint', 'valueFormat'='json-flat'"
        connection.execute(
            f"CREATE MAPPING m (__key BIGINT, {types}) TYPE IMap OPTIONS ({options})"
        )
        yield connection, connection.register_stream("s", SCHEMA, time_column="ts", max_disorder=0)


def explained(connection: Connection, text: str) -> list[str]:
    lines = [row[0] for row in connection.execute(f"EXPLAIN ALTER JOB j AS {text}").fetchall()]
    start = lines.index("State")
    whole: list[str] = []
    for line in lines[start + 1 : lines.index("", start)]:
        assert len(line) <= 110
        is_new = line[2] != " " or line.startswith("    - ")
        whole += [line] if is_new else [f"{whole.pop()} {line.strip()}"]
    return whole


def put(connection: Connection, writer: Any, rows: Sequence[Row], has_others: bool = False) -> None:
    """Writes rows, and waits until the job has read them and the sink has heard of their time: a
    snapshot may come between rows and their watermark, and before a step without rows has told that
    none will come of it. If it `has_others`, streams with times of their own, these hold back what
    the sink hears."""
    job = connection.job("j")
    read = job.rows_in
    if rows:
        writer.write(rows)
        assert eventually(lambda: job.rows_in == read + len(rows))
        last = max(row[1] for row in rows)
        assert has_others or eventually(lambda: told_sink(job) >= last)


def told_sink(job: Any) -> int:
    """The last watermark that came to the sink."""
    times = [
        vertex.watermark for name, vertex in job.metrics().items() if name.startswith("write ")
    ]
    return max((time for time in times if time is not None), default=-(1 << 63))


def found(connection: Connection) -> Result:
    rows = connection.execute("SELECT * FROM m").fetchall()
    return {(row[0] // 100, row[0] % 100): row[1:] for row in rows}


def changed(
    shapes: tuple[Shape, Shape],
    parts: tuple[Sequence[Row], Sequence[Row]],
    parallelism: tuple[int, int],
    distinct: bool,
) -> tuple[Result, list[str]]:
    """What comes out in all when one shape takes the place of another between two parts of a
    stream, and what EXPLAIN said."""
    values = VALUES + (", COUNT(DISTINCT v) AS d" if distinct else "")
    with streaming(parallelism[0], columns="n, s, lo, hi" + (", d" if distinct else "")) as (
        connection,
        writer,
    ):
        connection.execute(f"CREATE JOB j AS {query(shapes[0], values)}")
        put(connection, writer, parts[0])
        connection.execute(f"SET query_parallelism = {parallelism[1]}")
        connection.execute("CREATE SNAPSHOT t FOR JOB j", timeout=PATIENCE)
        lines = explained(connection, query(shapes[1], values))
        connection.execute(f"ALTER JOB j AS {query(shapes[1], values)}", timeout=PATIENCE)
        writer.write(parts[1])
        writer.close()
        connection.job("j").join(PATIENCE)
        return found(connection), lines


def shapes() -> st.SearchStrategy[Shape]:
    sizes = st.integers(1, 12)
    offsets = st.integers(0, 3)
    return st.one_of(
        st.builds(tumble, sizes, offsets),
        st.builds(
            lambda step, more, offset: hop(step + more, step, offset),
            st.integers(1, 6),
            st.integers(0, 14),
            offsets,
        ),
        st.builds(
            lambda step, steps, offset: cumulate(step, step * steps, offset),
            st.integers(1, 4),
            st.integers(1, 5),
            offsets,
        ),
    )


@settings(max_examples=examples(25), deadline=None)
@given(
    pair=st.tuples(shapes(), shapes()),
    before=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-10, 40), st.integers(-5, 5)),
        min_size=1,
        max_size=30,
    ),
    after=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(-5, 5)),
        min_size=1,
        max_size=20,
    ),
    parallelism=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    distinct=st.booleans(),
)
def test_windows_that_take_the_place_of_others(
    pair: tuple[Shape, Shape],
    before: list[Row],
    after: list[Row],
    parallelism: tuple[int, int],
    distinct: bool,
) -> None:
    before = sorted(before, key=lambda row: row[1])
    watermark = before[-1][1]
    after = sorted(((k, watermark + t, v) for k, t, v in after), key=lambda row: row[1])
    result, lines = changed(pair, (before, after), parallelism, distinct)
    expected = {
        **given_before(before, pair[0], watermark),
        **given_after(before, after, pair, watermark),
    }
    assert result == (expected if distinct else {key: value[:4] for key, value in expected.items()})
    notes = [line for line in lines if line.startswith("    -")]
    if not notes or EXACT in notes[0]:
        exact = {
            **given_before(before, pair[0], watermark),
            **over_all([*before, *after], pair[1], watermark),
        }
        assert expected == exact, "it isn't exact, and EXPLAIN doesn't say so"
    later = [key for key in expected if key[0] - pair[1].size >= pair[0].frame_end(watermark)]
    exact = over_all([*before, *after], pair[1], watermark)
    assert {key: expected[key] for key in later} == {key: exact[key] for key in later}


OLDER = [(i % 3, i, i * 7 % 11) for i in range(57)]
NEWER = [(i % 2, 56 + i, i) for i in range(80)]


@pytest.mark.parametrize(
    ("old", "new", "windows"),
    [
        (hop(20, 5), hop(20, 10), "SELECT 10 * n AS s, 10 * n + 20 AS e FROM range(-5, 20) t(n)"),
        (hop(20, 5), tumble(20), "SELECT 20 * n AS s, 20 * n + 20 AS e FROM range(-5, 20) t(n)"),
        (hop(30, 10), hop(20, 10), "SELECT 10 * n AS s, 10 * n + 20 AS e FROM range(-5, 20) t(n)"),
        (
            hop(24, 4),
            cumulate(8, 24),
            "SELECT 24 * n AS s, 24 * n + 8 * i AS e FROM range(-5, 20) t(n), range(1, 4) u(i)",
        ),
    ],
)
def test_what_is_exact_is_what_tables_give(old: Shape, new: Shape, windows: str) -> None:
    result, lines = changed((old, new), (OLDER, NEWER), (2, 3), False)
    assert any(EXACT in line for line in lines)
    rows = pa.table(
        [list(column) for column in zip(*OLDER, *NEWER, strict=True)], names=["k", "ts", "v"]
    )
    text = (
        "SELECT e, k, COUNT(*), SUM(v)::BIGINT, MIN(v), MAX(v) FROM rows_of_s, ({}) "
        "WHERE s <= ts AND ts < e GROUP BY e, k"
    )
    with duckdb.connect() as oracle:
        oracle.register("rows_of_s", rows)
        expected = {
            row[:2]: row[2:]
            for row in oracle.execute(text.format(windows)).fetchall()
            if row[0] > 56
        }
    assert {key: value for key, value in result.items() if key[0] > 56} == expected


def restarted(connection: Connection, times: int = 1) -> None:
    for _ in range(times):
        connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)


COUNTED = "SINK INTO m SELECT window_end * 100 + k, COUNT(*) FROM TABLE({}) GROUP BY window_end, k"
TUMBLING = COUNTED.format(tumble(10).sql())
LASTING = TUMBLING + " ALLOWED LATENESS {}"


def counts(connection: Connection) -> dict[int, int]:
    return {end: row[0] for (end, _), row in found(connection).items()}


def ended(connection: Connection, writer: Any) -> dict[int, int]:
    writer.close()
    connection.job("j").join(PATIENCE)
    return counts(connection)


def at(*times: int) -> list[Row]:
    return [(0, time, 1) for time in times]


def test_windows_that_were_given_before_lateness_was_allowed_stay_as_they_were() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {TUMBLING}")
        put(connection, writer, at(3, 4, 5, 25))
        assert explained(connection, LASTING.format(100))[0].endswith(
            ": kept, as it accepts late rows for 100, where it was 0"
        )
        connection.execute(f"ALTER JOB j AS {LASTING.format(100)}", timeout=PATIENCE)
        put(connection, writer, at(6))
        restarted(connection, 2)
        put(connection, writer, at(7, 26, 45))
        assert eventually(lambda: connection.job("j").late_rows == 1)
        put(connection, writer, at(27, 15))
        assert ended(connection, writer) == {10: 3, 30: 3, 50: 1}


def test_lateness_that_is_not_allowed_any_more() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(100)}")
        put(connection, writer, at(3, 4, 25, 5))
        assert "  - rows that are late for emitted windows are now too late" in "\n".join(
            explained(connection, TUMBLING)
        )
        connection.execute(f"ALTER JOB j AS {TUMBLING}", timeout=PATIENCE)
        put(connection, writer, at(6, 26))
        assert eventually(lambda: connection.job("j").late_rows == 1)
        assert ended(connection, writer) == {10: 3, 30: 2}


def test_less_and_more_lateness() -> None:
    with streaming(1, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(20)}")
        put(connection, writer, at(3, 15, 25, 35))
        connection.execute(f"ALTER JOB j AS {LASTING.format(200)}", timeout=PATIENCE)
        put(connection, writer, at(4, 16))
        assert eventually(lambda: connection.job("j").late_rows == 1), (
            "of the window that ends at 10 nothing is kept any more"
        )
        connection.execute(f"ALTER JOB j AS {LASTING.format(20)}", timeout=PATIENCE)
        put(connection, writer, at(45, 26, 18))
        assert ended(connection, writer) == {10: 1, 20: 3, 30: 2, 40: 1, 50: 1}


def test_what_lateness_kept_is_there_for_longer_windows() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(10)}")
        put(connection, writer, at(3, 4, 15))
        longer = COUNTED.format(tumble(20).sql())
        assert EXACT in explained(connection, longer)[1]
        connection.execute(f"ALTER JOB j AS {longer}", timeout=PATIENCE)
        assert ended(connection, writer) == {10: 2, 20: 3}


def test_late_rows_after_a_change_of_windows_change_nothing_that_was_given() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(50)}")
        put(connection, writer, at(3, 4, 15, 35))
        text = f"{COUNTED.format(tumble(20).sql())} ALLOWED LATENESS 50"
        connection.execute(f"ALTER JOB j AS {text}", timeout=PATIENCE)
        put(connection, writer, at(5, 36))
        restarted(connection)
        put(connection, writer, at(6, 61, 37))
        assert ended(connection, writer) == {10: 2, 20: 1, 40: 3, 80: 1}


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("shape", [tumble(10), hop(20, 5), cumulate(5, 20)])
def test_early_results_that_come_from_now_on(shape: Shape, distinct: bool) -> None:
    values = VALUES + (", COUNT(DISTINCT v) AS d" if distinct else "")
    with streaming(2, columns="n, s, lo, hi" + (", d" if distinct else "")) as (connection, writer):
        plain = query(shape, values).replace("INSERT", "SINK")
        early = f"{plain} EMIT EVERY INTERVAL '1' HOUR"
        connection.execute(f"CREATE JOB j AS {plain}")
        put(connection, writer, OLDER)
        connection.execute(f"ALTER JOB j AS {early}", timeout=PATIENCE)
        put(connection, writer, NEWER[:40])
        connection.execute(f"ALTER JOB j AS {early.replace('HOUR', 'DAY')}", timeout=PATIENCE)
        put(connection, writer, NEWER[40:60])
        restarted(connection)
        put(connection, writer, NEWER[60:])
        writer.close()
        connection.job("j").join(PATIENCE)
        expected = over_all([*OLDER, *NEWER], shape, -1000)
        assert found(connection) == (
            expected if distinct else {key: value[:4] for key, value in expected.items()}
        )


def test_early_results_that_come_no_more() -> None:
    with streaming(2, columns="n, s, lo, hi") as (connection, writer):
        plain = query(tumble(10), VALUES).replace("INSERT", "SINK")
        connection.execute(f"CREATE JOB j AS {plain} EMIT EVERY INTERVAL '1' HOUR")
        put(connection, writer, OLDER)
        connection.execute(f"ALTER JOB j AS {plain}", timeout=PATIENCE)
        put(connection, writer, NEWER)
        writer.close()
        connection.job("j").join(PATIENCE)
        assert found(connection) == {
            k: v[:4] for k, v in over_all([*OLDER, *NEWER], tumble(10), -1000).items()
        }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            COUNTED.format(hop(20, 5).sql()) + " EMIT EVERY INTERVAL '1' HOUR",
            COUNTED.format(hop(20, 5).sql()),
            (
                "with EMIT EVERY each of its windows, which overlap, has a state of its own that "
                "can't be split"
            ),
        ),
        (
            TUMBLING,
            COUNTED.format(tumble(20).sql()).replace("COUNT(*)", "MAX(v)"),
            "it computes MAX(v), where it was COUNT(*)",
        ),
        (
            TUMBLING,
            (
                "SINK INTO m SELECT window_end * 100, COUNT(*) "
                "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), 20)) GROUP BY window_end"
            ),
            "it groups by nothing else, where it was k BIGINT",
        ),
    ],
)
def test_what_cannot_be_recombined(old: str, new: str, reason: str) -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {old}")
        put(connection, writer, at(3, 4, 15))
        assert any(f"refused, as {reason}" in line for line in explained(connection, new))
        with pytest.raises(
            runnel.OperationalError, match="can't resume from its snapshot"
        ) as caught:
            connection.execute(f"ALTER JOB j AS {new}", timeout=PATIENCE)
        assert reason in (caught.value.detail or "")
        connection.execute("ALTER JOB j RESTART", timeout=PATIENCE)
        assert connection.job("j").record.query == old


@pytest.mark.parametrize(
    ("kind", "row", "unit"),
    [
        (pa.timestamp("us"), lambda t: datetime(2024, 1, 1) + timedelta(seconds=t), "SECOND"),
        (
            pa.timestamp("us", "UTC"),
            lambda t: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=t),
            "SECOND",
        ),
        (pa.date32(), lambda t: date(1970, 1, 1) + timedelta(days=20 * 986 + t), "DAY"),
        (pa.int16(), lambda t: t, ""),
    ],
    ids=["timestamp", "instant", "date", "integer"],
)
@pytest.mark.parametrize("bounds", ["window_end", "window_start", "window_end, window_start"])
def test_every_type_of_time(kind: pa.DataType, row: Any, unit: str, bounds: str) -> None:
    size = (lambda n: f"INTERVAL '{n}' {unit}") if unit else str
    with runnel.connect() as connection:
        connection.execute("SET query_parallelism = 2")
        options = "'keyFormat'='varchar', 'valueFormat'='bigint'"
        connection.execute(
            f"CREATE MAPPING m (__key VARCHAR, this BIGINT) TYPE IMap OPTIONS ({options})"
        )
        writer = connection.register_stream(
            "s", pa.schema([("ts", kind)]), time_column="ts", max_disorder=0 if not unit else None
        )
        text = (
            "SINK INTO m SELECT CAST({} AS VARCHAR), COUNT(*) "
            "FROM TABLE({}(TABLE s, DESCRIPTOR(ts), {})) GROUP BY {}"
        )
        first = bounds.split(", ")[0]
        connection.execute(
            f"CREATE JOB j AS {text.format(first, 'HOP', f'{size(20)}, {size(5)}', bounds)}"
        )
        writer.write([(row(t),) for t in range(57)])
        # The windows that end at 5, 10 … 55 are given before the query changes.
        assert eventually(lambda: connection.job("j").rows_out == 11)
        connection.execute(
            f"ALTER JOB j AS {text.format(first, 'TUMBLE', size(10), bounds)}", timeout=PATIENCE
        )
        connection.execute(
            f"ALTER JOB j AS {text.format(first, 'TUMBLE', size(20), bounds)}", timeout=PATIENCE
        )
        connection.execute("DELETE FROM m")
        writer.write([(row(t),) for t in range(57, 100)])
        writer.close()
        connection.job("j").join(PATIENCE)
        assert connection.execute("SELECT this FROM m ORDER BY 1").fetchall() == [
            (10,),
            (20,),
            (20,),
        ]


def test_a_window_that_the_type_of_time_cannot_hold() -> None:
    with runnel.connect() as connection:
        connection.execute(
            "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
            "OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"
        )
        writer = connection.register_stream(
            "s", pa.schema([("ts", pa.int8())]), time_column="ts", max_disorder=0
        )
        text = (
            "SINK INTO m SELECT window_end, COUNT(*) "
            "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), {})) GROUP BY window_end"
        )
        connection.execute(f"CREATE JOB j AS {text.format(5)}")
        writer.write([(120,), (121,)])
        assert eventually(lambda: connection.job("j").rows_in == 2)
        with pytest.raises(runnel.DataError, match="out of the range"):
            connection.execute(f"ALTER JOB j AS {text.format(100)}", timeout=PATIENCE)
        assert connection.job("j").record.query == text.format(5)


ABOVE = [
    (
        "SELECT window_end * 100 + k, n FROM (SELECT window_end, k, COUNT(*) AS n FROM TABLE({w}) "
        "GROUP BY window_end, k) "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC, k) <= 2"
    ),
    (
        "SELECT window_end * 100, MAX(n) FROM (SELECT window_end, k, COUNT(*) AS n FROM TABLE({w}) "
        "GROUP BY window_end, k) "
        "GROUP BY window_end"
    ),
    (
        "SELECT a.window_end * 100, a.n + b.n "
        "FROM (SELECT window_end, COUNT(*) AS n FROM TABLE({w}) WHERE k = 0 GROUP BY window_end) a "
        "JOIN (SELECT window_end, COUNT(*) AS n FROM TABLE({w}) WHERE k = 1 "
        "GROUP BY window_end) b ON a.window_end = b.window_end"
    ),
    (
        "SELECT window_end * 100 + k, n FROM (SELECT window_end, k, COUNT(*) AS n FROM TABLE({w}) "
        "GROUP BY window_end, k) "
        "ORDER BY window_end, k"
    ),
]


@pytest.mark.parametrize("text", ABOVE, ids=["over", "grouped", "joined", "sorted"])
def test_what_stands_above_the_windows_goes_on(text: str) -> None:
    """From the first new window on there is what a query over a table gives."""
    with streaming(2, columns="n") as (connection, writer):
        text = f"INSERT INTO m {text}"
        connection.execute(f"CREATE JOB j AS {text.format(w=hop(20, 5).sql())}")
        put(connection, writer, OLDER)
        lines = explained(connection, text.format(w=tumble(20).sql()))
        assert not any(
            "refused" in line or "dropped" in line or "starts empty" in line for line in lines
        ), lines
        connection.execute(f"ALTER JOB j AS {text.format(w=tumble(20).sql())}", timeout=PATIENCE)
        writer.write(NEWER)
        writer.close()
        connection.job("j").join(PATIENCE)
        after = {key: value for key, value in found(connection).items() if key[0] > 56}
    rows = [*OLDER, *NEWER]
    with runnel.connect() as batch:
        batch.register(
            "s", pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
        )
        query = text.removeprefix("INSERT INTO m ").format(w=tumble(20).sql())
        expected = {
            (end // 100, end % 100): (n,)
            for end, n in batch.execute(query).fetchall()
            if end // 100 > 56
        }
    assert after == expected


@pytest.mark.parametrize(
    "values",
    [VALUES, "MIN(v) AS n, SUM(v) AS s, CAST(AVG(v) * 1000 AS BIGINT) AS lo, MAX(v) AS hi"],
    ids=["with COUNT(*)", "without"],
)
@pytest.mark.parametrize(
    "shapes",
    [(tumble(10), tumble(10)), (hop(20, 5), hop(20, 5)), (hop(20, 5), tumble(20))],
    ids=str,
)
@pytest.mark.parametrize("comes", [True, False])
def test_late_rows_that_are_written_from_now_on_or_no_more(
    shapes: tuple[Shape, Shape], values: str, comes: bool
) -> None:
    """The aggregation has another number of stages then."""
    with streaming(2) as (connection, writer):
        options = "'keyFormat'='bigint', 'valueFormat'='json-flat'"
        connection.execute(
            f"CREATE MAPPING late (__key BIGINT, a BIGINT, b BIGINT) TYPE IMap OPTIONS ({options})"
        )
        texts = [query(shape, values) for shape in shapes]
        late = "LATE DATA INTO late"
        first, second = (
            (texts[0], f"{texts[1]} {late}") if comes else (f"{texts[0]} {late}", texts[1])
        )
        connection.execute(f"CREATE JOB j AS {first}")
        put(connection, writer, OLDER)
        lines = explained(connection, second)
        gone = [
            line.split(":")[0].strip() for line in lines if "dropped" in line or "refused" in line
        ]
        assert set(gone) <= {"late rows", "write late"}, lines
        connection.execute("SET query_parallelism = 3")
        connection.execute(f"ALTER JOB j AS {second}", timeout=PATIENCE)
        put(connection, writer, NEWER[:20])
        restarted(connection)
        put(connection, writer, [(0, 1, 1)])
        assert eventually(lambda: connection.job("j").late_rows == 1)
        put(connection, writer, NEWER[20:])
        writer.close()
        connection.job("j").join(PATIENCE)
        after = {key: value for key, value in found(connection).items() if key[0] > 56}
        rows = [*OLDER, *NEWER]
    with runnel.connect() as batch:
        batch.register(
            "s", pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
        )
        expected = batch.execute(query(shapes[1], values).removeprefix("INSERT INTO m ")).fetchall()
    assert after == {
        (key // 100, key % 100): tuple(row) for key, *row in expected if key // 100 > 56
    }


def test_a_new_job_that_begins_with_state_of_other_windows() -> None:
    with streaming(2) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {query(hop(20, 5), VALUES)}")
        put(connection, writer, OLDER)
        connection.execute("DROP JOB j WITH SNAPSHOT t", timeout=PATIENCE)
        text = f"CREATE JOB j OPTIONS ('initialSnapshotName'='t') AS {query(tumble(20), VALUES)}"
        lines = [row[0] for row in connection.execute(f"EXPLAIN {text}").fetchall()]
        assert (
            "  accumulate and combine: recombined, "
            "from HOP windows of 20 each 5 to TUMBLE windows of 20"
        ) in lines
        connection.execute(text)
        writer.write(NEWER)
        writer.close()
        connection.job("j").join(PATIENCE)
        expected = over_all([*OLDER, *NEWER], tumble(20), 56)
        assert {key: value for key, value in found(connection).items() if key[0] > 56} == {
            key: value[:4] for key, value in expected.items()
        }


@pytest.mark.parametrize("shape", [hop(20, 5), cumulate(5, 20)])
def test_overlapping_windows_for_which_lateness_is_allowed_from_now_on(shape: Shape) -> None:
    with streaming(2, columns="n") as (connection, writer):
        plain = COUNTED.format(shape.sql())
        connection.execute(f"CREATE JOB j AS {plain}")
        put(connection, writer, at(1, 2, 11))
        assert eventually(lambda: connection.job("j").rows_out == 2), "what is given stays"
        lasting = f"{plain} ALLOWED LATENESS 100"
        assert any("recombined, as results of" in line for line in explained(connection, lasting))
        connection.execute(f"ALTER JOB j AS {lasting}", timeout=PATIENCE)
        put(connection, writer, at(3))
        restarted(connection)
        put(connection, writer, at(4, 31))
        put(connection, writer, at(12))
        result = ended(connection, writer)
    later = over_all(at(1, 2, 11, 3, 4, 31, 12), shape, 11)
    assert result == {5: 2, 10: 2} | {end: value[0] for (end, _), value in later.items()}


BY_TIME = "SINK INTO m SELECT ts * 100, COUNT(*) FROM s GROUP BY ts"


def test_lateness_of_groups_by_time_that_comes_and_goes() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS {BY_TIME}")
        put(connection, writer, at(3, 3, 5))
        assert (
            ": kept, as it accepts late rows for 100"
            in explained(connection, f"{BY_TIME} ALLOWED LATENESS 100")[0]
        )
        connection.execute(f"ALTER JOB j AS {BY_TIME} ALLOWED LATENESS 100", timeout=PATIENCE)
        put(connection, writer, at(3, 5, 9))
        restarted(connection)
        put(connection, writer, at(5))
        connection.execute(f"ALTER JOB j AS {BY_TIME}", timeout=PATIENCE)
        put(connection, writer, at(5, 9, 10))
        assert eventually(lambda: connection.job("j").late_rows == 1)
        assert ended(connection, writer) == {3: 2, 5: 3, 9: 2, 10: 1}


def test_a_group_by_above_windows_says_whose_bounds_it_holds() -> None:
    with streaming(2, columns="n") as (connection, writer):
        connection.execute(f"CREATE JOB j AS INSERT INTO m {ABOVE[1].format(w=tumble(10).sql())}")
        put(connection, writer, at(3, 15))
        lines = explained(connection, f"INSERT INTO m {ABOVE[1].format(w=tumble(20).sql())}")
        assert lines[1] == (
            "    - the first windows may be incomplete: they begin up to 10 before the oldest "
            "rows that are still stored"
        )
        assert lines[2:5:2] == [f"  {name} 2: kept" for name in ("accumulate", "combine")]
        assert lines[3] == lines[5] == "    - its rows keep the bounds of the windows from before"
