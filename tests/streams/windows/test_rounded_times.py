"""GROUP BY, OVER and joins on streams by times that are cast, moved or rounded: what tables give,
by the watermark alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.connector import EventTimeMark
from runnel.expressions.nodes import columns_of
from runnel.planner.event_time.expressions import bound_of
from runnel.relation.streams import TimeBound
from runnel.runtime.simulation import Simulation, SimulationOptions
from tests.effort import crossed
from tests.streams.random_queries.simulated import FAR, kept_by, late_rows, until_held
from tests.streams.scripted_table import HOLD, ScriptedTable

TYPES = {
    "d": pa.date32(),
    "s": pa.int16(),
    "i": pa.int32(),
    "b": pa.int64(),
    "ts": pa.timestamp("us"),
}
KEYS = {
    "d": (
        "t - 3",
        "t + 40",
        "t - INTERVAL '3' DAY",
        "t + INTERVAL '90' MINUTE",
        "CAST(t AS TIMESTAMP)",
        "DATE_TRUNC('week', t)",
        "DATE_TRUNC('quarter', t)",
        "t - INTERVAL '1' MONTH",
    ),
    "s": ("t - 3", "7 + t", "CAST(t AS BIGINT)", "t / 10 * 10", "t - t % 10", "10 * (t / 10) + 4"),
    "i": (
        "t - 3",
        "CAST(t AS SMALLINT)",
        "t / 7 * 7",
        "CAST(t AS BIGINT) - CAST(t AS BIGINT) % 7",
        "(t - 5) / 10 * 10 + 5",
    ),
    "b": ("t - 3", "t / 10 * 10", "t - t % 10 + 10", "CAST(t / 10 * 10 AS INTEGER)"),
    "ts": (
        "CAST(t AS DATE)",
        "CAST(CAST(t AS DATE) AS TIMESTAMP)",
        "DATE_TRUNC('minute', t)",
        "DATE_TRUNC('hour', t) + INTERVAL '1' HOUR",
        "DATE_TRUNC('month', t)",
        "DATE_TRUNC('year', t)",
        "DATE_TRUNC('decade', t)",
        "TIME_BUCKET(INTERVAL '5' HOUR, t)",
        "TIME_BUCKET(INTERVAL '5' HOUR, t, TIMESTAMP '2001-02-03 04:05:06')",
        "t - INTERVAL '1' MONTH",
        "t + INTERVAL '2' MONTH",
        "DATE_TRUNC('day', t - INTERVAL '6' HOUR)",
    ),
}
REFUSED = {
    "d": ("EXTRACT(YEAR FROM t)",),
    "s": ("-t", "t % 10", "t / 10", "CAST(t AS DOUBLE)"),
    "ts": ("t + (t - t)",),
}
CASES = [(kind, key) for kind, keys in KEYS.items() for key in keys]


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def times(rng: random.Random, kind: str, count: int) -> pa.Array:
    """Times around 1970 and leap days, in about their order."""
    if kind in ("d", "ts"):
        start = rng.choice(
            (datetime(1968, 2, 20), datetime(1999, 12, 25), datetime(2024, 2, 27, 22))
        )
        step = rng.choice((1, 9, 40)) if kind == "d" else rng.choice((1, 17, 400))
        unit = timedelta(days=1) if kind == "d" else timedelta(minutes=37)
        values = [start + unit * step * (number - rng.randint(0, 3)) for number in range(count)]
        return (
            pa.array(values, pa.timestamp("us")).cast(TYPES[kind])
            if kind == "ts"
            else pa.array([v.date() for v in values])
        )
    step = rng.choice((1, 1, 3, 20))
    return pa.array(
        [step * (number - 30 - rng.randint(0, 3)) for number in range(count)], TYPES[kind]
    )


def event_time(value: Any) -> int:
    if isinstance(value, int):
        return value
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def stream_of(con: runnel.Connection, rng: random.Random, kind: str) -> pa.Table:
    """The table, and the stream "t" of its rows, whose lag is what its disorder is, and which says
    that time is far on."""
    found = times(rng, kind, 80)
    table = pa.table({"t": found, "k": [rng.randint(1, 3) for _ in found], "v": range(len(found))})
    moments = [event_time(value) for value in found.to_pylist()]
    lag, most = 0, moments[0]
    for moment in moments:
        most = max(most, moment)
        lag = max(lag, most - moment)
    script = [*table.to_batches(max_chunksize=rng.randint(1, 7)), EventTimeMark(FAR), HOLD]
    con._register("t", ScriptedTable("t", table.schema, [script], EventTime(0, lag, 0)))
    return table


@pytest.mark.parametrize(("case", "parallelism"), crossed(CASES, [1, 2]))
def test_groups_are_those_of_tables(
    con: runnel.Connection, case: tuple[str, str], parallelism: int
) -> None:
    kind, key = case
    for seed in (parallelism,):
        table = stream_of(con, random.Random(f"{kind} {key} {seed}"), kind)
        for sql in (
            f"SELECT {key} AS x, k, COUNT(*), SUM(v) FROM t GROUP BY {key}, k",
            f"SELECT x, COUNT(*) OVER (PARTITION BY x) FROM (SELECT {key} AS x, k FROM t)",
        ):
            with runnel.connect() as other:
                other.register("t", table)
                wanted = other.execute(sql).fetchall()
            plan: Any = con._session.prepare(sql, ())
            run = Simulation(
                plan.dag(parallelism), seed, SimulationOptions(parallelism=parallelism)
            )
            found = until_held(run)
            assert sorted(map(repr, found)) == sorted(map(repr, wanted))
            assert late_rows(run) == 0
            assert kept_by(run) == {}


@pytest.mark.parametrize(
    ("kind", "key"), [(kind, key) for kind, keys in REFUSED.items() for key in keys]
)
def test_what_is_not_known_to_go_with_time_is_refused(
    con: runnel.Connection, kind: str, key: str
) -> None:
    stream_of(con, random.Random(1), kind)
    with pytest.raises(runnel.NotSupportedError) as caught:
        con.execute(f"SELECT {key} AS x, COUNT(*) FROM t GROUP BY {key}")
    assert caught.value.hint


def test_a_day_comes_when_it_is_over(con: runnel.Connection) -> None:
    writer = con.register_stream(
        "s", {"t": "TIMESTAMP", "v": "BIGINT"}, time_column="t", max_disorder=timedelta(0)
    )
    with con.execute("SELECT CAST(t AS DATE) AS day, SUM(v) FROM s GROUP BY day") as cursor:
        writer.write([(datetime(2024, 2, 28, 12), 1), (datetime(2024, 2, 29, 0), 2)])
        assert cursor.fetchone() == (date(2024, 2, 28), 1)
        writer.write([(datetime(2024, 2, 29, 23, 59, 59, 999_999), 4)])
        writer.write([(datetime(2024, 3, 1), 8)])
        assert cursor.fetchone() == (date(2024, 2, 29), 6)
        writer.close()
        assert cursor.fetchall() == [(date(2024, 3, 1), 8)]


@pytest.mark.parametrize(("kind", "key"), CASES)
def test_no_value_is_below_its_bound(con: runnel.Connection, kind: str, key: str) -> None:
    """For times all over: what a key comes to is at least the time and what the bound adds to
    it."""
    rng = random.Random(f"bound {kind} {key}")
    if kind in ("d", "ts"):
        moments = [
            datetime(1960, 1, 1) + timedelta(minutes=rng.randint(0, 60 * 24 * 365 * 90))
            for _ in range(3_000)
        ]
        values = pa.array(moments, pa.timestamp("us")).cast(TYPES[kind], safe=False)
        if kind == "d":
            values = pa.array([moment.date() for moment in moments])
    else:
        values = pa.array([rng.randint(-900, 900) for _ in range(3_000)], TYPES[kind])
    con.register("t", pa.table({"t": values}))
    plan: Any = con._session.prepare(f"SELECT {key} AS x FROM t", ())
    expression = plan.physical.projections[0]
    bound = bound_of(expression, {next(iter(columns_of(expression))): TimeBound(1)})
    assert bound is not None
    keys = con.execute(f"SELECT {key} AS x FROM t").fetch_arrow_table().column("x").to_pylist()
    apart = [
        event_time(key) - event_time(time)
        for key, time in zip(keys, values.to_pylist(), strict=True)
    ]
    assert min(apart) >= bound.offset


def test_streams_are_joined_by_their_days(con: runnel.Connection) -> None:
    first = con.register_stream(
        "a", {"t": "TIMESTAMP", "v": "BIGINT"}, time_column="t", max_disorder=timedelta(0)
    )
    second = con.register_stream(
        "b", {"d": "DATE", "w": "BIGINT"}, time_column="d", max_disorder=timedelta(0)
    )
    sql = (
        "SELECT x.v, b.w FROM (SELECT CAST(t AS DATE) AS day, v FROM a) x "
        "LEFT JOIN b ON x.day = b.d"
    )
    with con.execute(sql) as cursor:
        first.write([(datetime(2024, 1, 1, 5), 1), (datetime(2024, 1, 2, 7), 2)])
        second.write([(date(2024, 1, 2), 9)])
        first.write([(datetime(2024, 1, 3, 7), 3)])
        assert sorted(cursor.fetchone() or () for _ in range(2)) == [(1, None), (2, 9)]
        first.close()
        second.close()
        assert cursor.fetchall() == [(3, None)]
