"""ALTER JOB with another gap of sessions: held sessions stay, touch, or end sooner; results follow
from the rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel import Connection
from tests.dbapi.connection.test_lifecycle import eventually
from tests.jobs.state_evolution.recombined import Row
from tests.jobs.state_evolution.test_recombining import (
    PATIENCE,
    at,
    explained,
    put,
    restarted,
    streaming,
)

Span = tuple[int, int, list[int]]
"""First and last event, and the values of a session."""

Sessions = dict[tuple[int, int], tuple[int, ...]]
"""By end and key: the start, count, sum and number of distinct values of a session."""


def joined(spans: list[Span], gap: int) -> list[Span]:
    """Spans of one key, put together where they are no more than a gap apart."""
    made: list[Span] = []
    for first, last, values in sorted(spans, key=lambda span: span[:2]):
        if made and first - made[-1][1] <= gap:
            made[-1] = (made[-1][0], max(made[-1][1], last), made[-1][2] + values)
        else:
            made.append((first, last, values))
    return made


def by_key(rows: list[Row]) -> dict[int, list[Span]]:
    found: dict[int, list[Span]] = {}
    for key, time, value in rows:
        found.setdefault(key, []).append((time, time, [value]))
    return found


def expected(
    before: list[Row], after: list[Row], gaps: tuple[int, int], keeps_rows: bool
) -> Sessions:
    """All that comes out when a gap takes the place of another between rows in order. Where rows
    are kept, sessions that are held are divided anew, and those that are over then are late for the
    GROUP BY behind them."""
    watermark = before[-1][1]
    results: Sessions = {}
    old, new = by_key(before), by_key(after)
    for key in {*old, *new}:
        sessions = joined(old.get(key, []), gaps[0])
        over = [span for span in sessions if span[1] + gaps[0] < watermark]
        held = [span for span in sessions if span not in over]
        if keeps_rows:
            held = [
                (t, t, [v])
                for k, t, v in before
                if k == key and any(span[0] <= t <= span[1] for span in held)
            ]
        left = joined([*held, *new.get(key, [])], gaps[1])
        if keeps_rows:
            left = [span for span in left if span[1] + gaps[1] >= watermark]
        ends = [(span, gaps[0]) for span in over] + [(span, gaps[1]) for span in left]
        for (first, last, values), gap in ends:
            results[last + gap, key] = (first, len(values), sum(values), len(set(values)))
    return results


STATES = (
    "SINK INTO m SELECT window_end * 100 + k, window_start, COUNT(*), SUM(v), COUNT(DISTINCT v) "
    "FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {})) "
    "GROUP BY window_start, window_end, k"
)
ROWS = (
    "SINK INTO m SELECT window_end * 100 + k, window_start, COUNT(*), SUM(v), COUNT(DISTINCT v) "
    "FROM (SELECT window_end, window_start, k, v "
    "FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {})) "
    "WHERE v > -1000) GROUP BY window_start, window_end, k"
)
COLUMNS = "start, n, s, d"


def result(connection: Connection) -> Sessions:
    return {
        (row[0] // 100, row[0] % 100): row[1:]
        for row in connection.execute("SELECT * FROM m").fetchall()
    }


@settings(max_examples=20, deadline=None)
@given(
    gaps=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    before=st.lists(
        st.tuples(st.integers(0, 2), st.integers(-10, 40), st.integers(-5, 5)),
        min_size=1,
        max_size=25,
    ),
    after=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(-5, 5)),
        min_size=1,
        max_size=15,
    ),
    parallelism=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    keeps_rows=st.booleans(),
)
def test_another_gap(
    gaps: tuple[int, int],
    before: list[Row],
    after: list[Row],
    parallelism: tuple[int, int],
    keeps_rows: bool,
) -> None:
    before = sorted(before, key=lambda row: row[1])
    after = sorted(((k, before[-1][1] + t, v) for k, t, v in after), key=lambda row: row[1])
    text = ROWS if keeps_rows else STATES
    with streaming(parallelism[0], columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {text.format(gaps[0])}")
        put(connection, writer, before)
        connection.execute(f"SET query_parallelism = {parallelism[1]}")
        connection.execute(f"ALTER JOB j AS {text.format(gaps[1])}", timeout=PATIENCE)
        restarted(connection)
        writer.write(after)
        writer.close()
        connection.job("j").join(PATIENCE)
        assert result(connection) == expected(before, after, gaps, keeps_rows)


@pytest.mark.parametrize(
    ("text", "gaps", "notes"),
    [
        (
            STATES,
            (5, 20),
            [
                "buffered sessions that now touch are merged",
                (
                    "a session emitted before the change is not continued: rows that would belong "
                    "to it begin a new one"
                ),
            ],
        ),
        (STATES, (20, 5), ["buffered sessions are not split, they only end sooner"]),
        (
            ROWS,
            (20, 5),
            [
                (
                    "buffered sessions are split by the new gap; those that have ended by it are "
                    "emitted at once, too late for a GROUP BY, OVER or ORDER BY after them"
                )
            ],
        ),
        (STATES, (5, 5), []),
    ],
)
def test_what_is_told_of_another_gap(text: str, gaps: tuple[int, int], notes: list[str]) -> None:
    with streaming(2, columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {text.format(gaps[0])}")
        put(connection, writer, at(1, 2))
        lines = explained(connection, text.format(gaps[1]))
        start = next(
            i
            for i, line in enumerate(lines)
            if line.startswith(("  session", "  aggregate: recombined")) or not notes
        )
        assert [
            line.removeprefix("    - ") for line in lines[start + 1 :] if line.startswith("    - ")
        ] == notes
        if notes:
            assert lines[start].endswith(
                f"recombined, from sessions with a gap of {gaps[0]} to sessions with a gap of "
                f"{gaps[1]}"
            )


LASTING = STATES + " ALLOWED LATENESS {}"


def ended(connection: Connection, writer: Any) -> dict[int, tuple[int, int]]:
    writer.close()
    connection.job("j").join(PATIENCE)
    return {end: (row[0], row[1]) for (end, _), row in result(connection).items()}


def test_lateness_for_sessions_that_come_from_now_on() -> None:
    with streaming(2, columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {STATES.format(5)}")
        put(connection, writer, at(1, 2, 30))
        connection.execute(f"ALTER JOB j AS {LASTING.format(5, 100)}", timeout=PATIENCE)
        put(connection, writer, at(4))
        restarted(connection, 2)
        put(connection, writer, at(5, 60))
        put(connection, writer, at(33))
        assert eventually(lambda: connection.job("j").late_rows == 1)
        assert ended(connection, writer) == {7: (1, 2), 35: (30, 1), 38: (30, 2), 65: (60, 1)}


def test_lateness_for_sessions_that_is_not_allowed_any_more() -> None:
    with streaming(2, columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(5, 100)}")
        put(connection, writer, at(1, 2, 30))
        connection.execute(f"ALTER JOB j AS {STATES.format(5)}", timeout=PATIENCE)
        connection.execute("DELETE FROM m")
        put(connection, writer, at(4, 31))
        assert eventually(lambda: connection.job("j").late_rows == 1)
        assert ended(connection, writer) == {36: (30, 2)}


def test_a_session_that_was_given_is_not_overlapped_when_lateness_is_not_allowed_any_more() -> None:
    with streaming(2, columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(10, 100)}")
        put(connection, writer, [(1, 1, 0), (2, 12, 0)])
        connection.execute(f"ALTER JOB j AS {STATES.format(10)}", timeout=PATIENCE)
        restarted(connection, 3)
        put(connection, writer, [(1, 8, 1)])
        assert eventually(lambda: connection.job("j").late_rows == 1), (
            "it would be open by its time"
        )
        assert ended(connection, writer) == {11: (1, 1), 22: (12, 1)}


def test_a_session_that_was_given_goes_on_with_a_longer_gap_where_it_was_kept() -> None:
    with streaming(2, columns=COLUMNS) as (connection, writer):
        connection.execute(f"CREATE JOB j AS {LASTING.format(5, 100)}")
        put(connection, writer, at(1, 2, 10))
        connection.execute(f"ALTER JOB j AS {LASTING.format(20, 100)}", timeout=PATIENCE)
        put(connection, writer, at(40))
        assert ended(connection, writer) == {7: (1, 2), 30: (1, 3), 60: (40, 1)}
