"""EMIT CHANGES, end to end: over pushed streams with a manual clock, tables, and both together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.testing.clock import ManualClock
from tests.effort import some
from tests.streams.live.live_cases import Bench, case_of

TIMEOUT = 30.0
MILLISECOND = 1_000_000
CLICKS = {"page": "VARCHAR", "x": "BIGINT"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def connection(clock: ManualClock) -> Iterator[runnel.Connection]:
    with runnel.connect(clock=clock) as connection:
        yield connection


def fetch(cursor: runnel.Cursor, count: int) -> list[Any]:
    """The next rows, without the number of their epoch, which must be the same for all."""
    rows = [cursor.fetchone(timeout=TIMEOUT) for _ in range(count)]
    assert all(row is not None for row in rows)
    assert len({row[0] for row in rows if row}) == 1, rows
    return [row[1:] for row in rows if row]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


@pytest.mark.parametrize("seed", some(range(300), every=12))
def test_every_epoch_is_the_answer_over_a_prefix(bench: Bench, seed: int) -> None:
    case = case_of(seed)
    try:
        bench.check(case)
    except (AssertionError, runnel.Error) as error:
        pytest.fail(f"{error}\n{case}")


def test_the_changes_of_groups(connection: runnel.Connection, clock: ManualClock) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    query = "SELECT page, COUNT(*) AS n, MAX(x) AS m FROM clicks GROUP BY page EMIT CHANGES"
    cursor = connection.execute(query)
    assert [name for name, *_ in cursor.description or ()] == [
        *("__epoch", "__weight"),
        *("page", "n", "m"),
    ]
    assert cursor.epoch is None
    clicks.write([("a", 1)])
    assert fetch(cursor, 1) == [(1, "a", 1, 1)]
    clock.advance(20 * MILLISECOND)
    clicks.write([("b", 5), ("a", 3), ("b", 4)])
    changes = fetch(cursor, 3)
    assert changes[0] == (-1, "a", 1, 1)
    assert sorted(changes[1:]) == [(1, "a", 2, 3), (1, "b", 2, 5)]
    clock.advance(20 * MILLISECOND)
    clicks.write([("b", 0)])
    assert fetch(cursor, 2) == [(-1, "b", 2, 5), (1, "b", 3, 5)]
    clicks.close()
    assert cursor.fetchone(timeout=TIMEOUT) is None


def test_rows_that_arrive_within_the_distance_are_one_epoch(
    connection: runnel.Connection, clock: ManualClock
) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute(
        "SELECT COUNT(*) FROM clicks EMIT CHANGES OPTIONS ('epochMillis' = '50')"
    )
    assert fetch(cursor, 1) == [(1, 0)]  # the first epoch ends at once
    clicks.write([("a", 1)])
    assert fetch(cursor, 2) == [(-1, 0), (1, 1)]
    clicks.write([("b", 1)])
    connection.settle()
    clicks.write([("b", 2)])
    connection.settle()
    clock.advance(49 * MILLISECOND)
    connection.settle()
    with pytest.raises(runnel.FetchTimeoutError):
        cursor.fetchone(timeout=0)
    clock.advance(1 * MILLISECOND)
    assert fetch(cursor, 2) == [(-1, 1), (1, 3)]
    clock.advance(1000 * MILLISECOND)
    clicks.write([("c", 1)])
    assert fetch(cursor, 2) == [(-1, 3), (1, 4)]  # after a pause the epoch ends at once


def test_the_epoch_of_a_cursor(connection: runnel.Connection) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute("SELECT DISTINCT page, x FROM clicks EMIT CHANGES")
    clicks.write([("a", 1), ("b", 2)])
    first = cursor.fetchone(timeout=TIMEOUT)
    assert first is not None
    assert cursor.epoch is None or cursor.epoch < first[0]
    second = cursor.fetchone(timeout=TIMEOUT)
    assert second is not None and second[0] == first[0]
    assert cursor.epoch == first[0]
    clicks.close()
    assert cursor.fetchone(timeout=TIMEOUT) is None
    assert cursor.epoch == first[0]


def test_a_stream_that_ends_within_the_distance(
    connection: runnel.Connection, clock: ManualClock
) -> None:
    ending, silent = (connection.register_stream(name, CLICKS) for name in ("ending", "silent"))
    cursor = connection.execute(
        "SELECT COUNT(*) AS n FROM (SELECT x FROM ending UNION ALL SELECT x FROM silent) AS u "
        "EMIT CHANGES"
    )
    assert fetch(cursor, 1) == [(1, 0)]
    ending.write([("a", 1)])
    assert fetch(cursor, 2) == [(-1, 0), (1, 1)]
    ending.write([("a", 2), ("b", 3)])
    ending.close()
    clock.advance(20 * MILLISECOND)
    assert fetch(cursor, 2) == [(-1, 1), (1, 3)]
    silent.close()
    assert cursor.fetchall() == []


def test_rows_of_an_epoch_that_has_not_ended_are_limited(clock: ManualClock) -> None:
    with runnel.connect(clock=clock, max_processor_accumulated_records=1000) as connection:
        clicks = connection.register_stream("clicks", CLICKS)
        cursor = connection.execute("SELECT x FROM clicks ORDER BY x LIMIT 1 EMIT CHANGES")
        clicks.write([("a", 1)])
        assert fetch(cursor, 1) == [(1, 1)]
        clicks.write([("a", number) for number in range(2000)])
        with pytest.raises(runnel.OperationalError, match="max_processor_accumulated_records"):
            cursor.fetchone(timeout=TIMEOUT)


def test_ends_of_epochs_are_forgotten(connection: runnel.Connection, clock: ManualClock) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute("SELECT COUNT(*) AS n FROM clicks EMIT CHANGES")
    assert fetch(cursor, 1) == [(1, 0)]
    result = cursor._result
    assert result is not None
    assert result.job is not None
    for number in range(50):
        clock.advance(20 * MILLISECOND)
        clicks.write([("a", number)])
        assert fetch(cursor, 2) == [(-1, number), (1, number + 1)]
    assert len(result.job.results._epochs) < 5
    assert cursor.epoch == 51


def test_a_table_is_one_epoch(connection: runnel.Connection) -> None:
    connection.execute(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'a')) v(i, k)"
    )
    cursor = connection.execute("SELECT k, COUNT(*) AS n FROM t GROUP BY k EMIT CHANGES")
    assert sorted(cursor.fetchall()) == [(1, 1, "a", 2), (1, 1, "b", 1)]
    assert cursor.epoch == 1
    cursor.execute("SELECT i FROM t WHERE i > 5 EMIT CHANGES")
    assert cursor.fetchall() == []
    assert cursor.epoch == 1
    cursor.execute("SELECT i FROM t")
    assert cursor.epoch is None


def test_a_table_is_in_the_first_epoch_of_a_stream(
    connection: runnel.Connection, clock: ManualClock
) -> None:
    connection.execute("CREATE TABLE t AS SELECT i AS x FROM GENERATE_SERIES(1, 1000) s(i)")
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute(
        "SELECT COUNT(*), SUM(x) FROM (SELECT x FROM t UNION ALL SELECT x FROM clicks) u "
        "EMIT CHANGES"
    )
    assert fetch(cursor, 1) == [(1, 1000, 500500)]
    clock.advance(20 * MILLISECOND)
    clicks.write([("a", 1)])
    assert fetch(cursor, 2) == [(-1, 1000, 500500), (1, 1001, 500501)]


def test_a_file_that_grows(connection: runnel.Connection, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("cat dog cat\n")
    connection.execute(
        "CREATE MAPPING log TYPE File OPTIONS "
        f"('path' = '{path}', 'format' = 'lines', 'follow' = 'true')"
    )
    cursor = connection.execute(
        "SELECT word, COUNT(*) AS n FROM (SELECT UNNEST(STRING_TO_ARRAY(line, ' ')) AS word "
        "FROM log) w GROUP BY word EMIT CHANGES"
    )
    assert sorted(fetch(cursor, 2)) == [(1, "cat", 2), (1, "dog", 1)]


def test_a_generated_stream(connection: runnel.Connection, clock: ManualClock) -> None:
    cursor = connection.execute(
        "SELECT v % 2 AS odd, COUNT(*) AS n FROM TABLE(GENERATE_STREAM(1000)) g(v) GROUP BY 1 "
        "EMIT CHANGES"
    )
    totals: Counter[Any] = Counter()
    for _ in range(20):
        clock.advance(20 * MILLISECOND)
        connection.settle()
        while True:
            try:
                row = cursor.fetchone(timeout=0)
            except runnel.FetchTimeoutError:
                break
            assert row is not None
            totals[row[2:]] += row[1]
        groups = dict((+totals).keys())
        assert all(count == 1 for count in (+totals).values())
        assert groups.get(0, 0) - groups.get(1, 0) in (0, 1), groups
    assert sum(dict((+totals).keys()).values()) >= 100


def test_windows_that_a_watermark_completes_are_appended(connection: runnel.Connection) -> None:
    rows = connection.register_stream(
        "rows", {"ts": "BIGINT", "x": "BIGINT"}, time_column="ts", max_disorder=0
    )
    query = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE rows, DESCRIPTOR(ts), 10)) "
        "GROUP BY window_end EMIT CHANGES"
    )
    plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN (PHYSICAL) {query}"))
    assert "emits: changes" not in plan
    cursor = connection.execute(query)
    rows.write([(1, 0), (5, 0), (12, 0)])
    assert fetch(cursor, 1) == [(1, 10, 2)]
    rows.close()
    assert fetch(cursor, 1) == [(1, 20, 1)]


def test_the_latest_row_of_each_key(connection: runnel.Connection, clock: ManualClock) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute(
        "SELECT page, x FROM clicks QUALIFY ROW_NUMBER() OVER (PARTITION BY page ORDER BY x DESC) "
        "= 1 EMIT CHANGES"
    )
    clicks.write([("a", 1), ("a", 3), ("b", 2)])
    assert sorted(fetch(cursor, 2)) == [(1, "a", 3), (1, "b", 2)]
    clock.advance(20 * MILLISECOND)
    clicks.write([("a", 2), ("b", 7)])
    assert fetch(cursor, 2) == [(-1, "b", 2), (1, "b", 7)]


def test_the_top_pages(connection: runnel.Connection, clock: ManualClock) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute(
        "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page ORDER BY n DESC, page LIMIT 2 "
        "EMIT CHANGES"
    )
    clicks.write([("a", 0), ("b", 0), ("b", 0), ("c", 0)])
    assert sorted(fetch(cursor, 2)) == [(1, "a", 1), (1, "b", 2)]
    clock.advance(20 * MILLISECOND)
    clicks.write([("c", 0), ("c", 0)])
    assert fetch(cursor, 2) == [(-1, "a", 1), (1, "c", 3)]


def test_a_view_whose_rows_change(connection: runnel.Connection) -> None:
    """CREATE VIEW stores a query whose changes alone can be read."""
    connection.register_stream("seen", {"page": "VARCHAR"})
    connection.execute("CREATE VIEW counts AS SELECT page, COUNT(*) AS n FROM seen GROUP BY page")
    connection.execute("CREATE VIEW pages AS SELECT DISTINCT page FROM seen")
    with pytest.raises(runnel.NotSupportedError) as caught:
        connection.execute("SELECT * FROM counts")
    assert "SELECT * FROM counts EMIT CHANGES" in str(caught.value.hint)
    with pytest.raises(runnel.NotSupportedError, match="sorting"):
        connection.execute("CREATE VIEW sorted AS SELECT page FROM seen ORDER BY page")


def test_a_refused_query_is_suggested_with_its_changes(connection: runnel.Connection) -> None:
    connection.register_stream("clicks", CLICKS)
    query = "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page"
    with pytest.raises(runnel.NotSupportedError) as error:
        connection.execute(query)
    assert f"{query} EMIT CHANGES" in (error.value.hint or "")
    with pytest.raises(runnel.NotSupportedError) as error:
        connection.execute(f"{query} ORDER BY n")
    assert "EMIT CHANGES" not in (error.value.hint or "")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT x FROM clicks LIMIT 3 EMIT CHANGES", "LIMIT can't be maintained"),
        (
            "SELECT page, COUNT(*) FROM clicks GROUP BY page ORDER BY page EMIT CHANGES",
            "SORT can't be maintained",
        ),
        ("SELECT page, NOW() FROM clicks EMIT CHANGES", r"NOW\(\) .* is not supported in EMIT"),
        (
            "SELECT COUNT(*), MAX(RANDOM()) FROM clicks EMIT CHANGES",
            "not supported in an operator whose result is maintained",
        ),
        (
            "SELECT n + RANDOM() FROM (SELECT COUNT(*) AS n FROM clicks) c EMIT CHANGES",
            "over rows that change is not supported",
        ),
        ("CREATE VIEW v AS SELECT x FROM clicks EMIT CHANGES", "only in a query whose rows"),
        ("INSERT INTO t SELECT x FROM clicks EMIT CHANGES", "only in a query whose rows"),
        ("CREATE TABLE u AS SELECT x FROM clicks EMIT CHANGES", "only in a query whose rows"),
        (
            "SELECT COUNT(*) FROM clicks EMIT EVERY INTERVAL '1' SECOND EMIT CHANGES",
            "EMIT CHANGES after another clause",
        ),
        ("SELECT COUNT(*) FROM clicks EMIT CHANGES LATE DATA INTO m", "exclude each other"),
        ("SELECT x FROM clicks EMIT CHANGES OPTIONS ('epochMillis' = 'x')", "a whole number"),
        ("SELECT x FROM t OPTIONS ('epochMillis' = '5')", "is an option of EMIT CHANGES"),
    ],
)
def test_refusals(connection: runnel.Connection, statement: str, message: str) -> None:
    connection.register_stream("clicks", CLICKS)
    connection.execute("CREATE TABLE t (x BIGINT)")
    with pytest.raises(runnel.Error, match=message) as error:
        connection.execute(statement)
    assert error.value.position is not None


def test_a_sum_out_of_range_is_an_error_when_it_is_emitted(connection: runnel.Connection) -> None:
    clicks = connection.register_stream("clicks", CLICKS)
    cursor = connection.execute("SELECT SUM(x) FROM clicks EMIT CHANGES")
    clicks.write([("a", 2**62), ("a", 2**62), ("a", -(2**62))])
    assert fetch(cursor, 1) in ([(1, None)], [(1, 2**62)])  # over no rows, or over all
    clicks.write([("a", 2**62)])
    clicks.close()
    with pytest.raises(runnel.DataError):
        while cursor.fetchone(timeout=TIMEOUT) is not None:
            pass
