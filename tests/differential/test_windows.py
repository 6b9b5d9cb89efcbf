"""Generated window calls give what the definition gives (`window_reference`), on one processor and
on several, in our operator and on DuckDB; and what SQLite gives, where it has the types.

`python -m tests.differential.test_windows SECONDS [SEED]` goes on for as long as told and prints
what it finds.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import runnel
from tests.differential.window_reference import Bound, Call, Key, Months, Row, values
from tests.effort import some
from tests.slt.oracle import same

SEEDS = range(5)
CALLS_PER_SEED = 30
NAN = float("nan")
SCHEMA = {
    "id": pa.int64(),
    "g": pa.int32(),
    "h": pa.string(),
    "i": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "d": pa.decimal128(20, 2),
    "b": pa.bool_(),
    "t": pa.date32(),
    "w": pa.timestamp("us"),
}
VALUES: dict[str, list[Any]] = {
    "g": [None, 0, 1, 2],
    "h": [None, "", "x"],
    "i": [None, 0, 1, 2, 3, 5, 8, -4, 9_000_000_000],
    "f": [None, 0.0, -0.0, NAN, 1.0, 1.5, -2.25, 3.0],
    "s": [None, "", "a", "b", "ab", "é"],
    "d": [
        None,
        Decimal("0.00"),
        Decimal("1.00"),
        Decimal("1.50"),
        Decimal("-2.25"),
        Decimal("123456789012345678.90"),
    ],
    "b": [None, True, False],
    "t": [
        None,
        date(1969, 12, 31),
        date(2024, 1, 31),
        date(2024, 2, 29),
        date(2024, 3, 1),
        date(2024, 3, 31),
    ],
    "w": [
        None,
        datetime(1969, 12, 31, 23, 59, 59),
        datetime(2024, 2, 29),
        datetime(2024, 2, 29, 12),
        datetime(2024, 3, 2),
    ],
}
OFFSETS: dict[str, list[Any]] = {
    "i": [0, 1, 2, 100, 9_223_372_036_854_775_807, Decimal("1.5"), 0.5],
    "f": [0, 1, 1.5, 100],
    "d": [0, 1, Decimal("0.50"), Decimal("1.125")],
    "t": [timedelta(0), timedelta(days=1), timedelta(hours=36), Months(1), Months(0)],
    "w": [timedelta(0), timedelta(hours=12), timedelta(days=2), Months(1)],
}
COLUMNS = ["i", "f", "s", "d", "b", "t", "w"]
NUMERIC = ["i", "f", "d"]
AGGREGATES = {
    "count": COLUMNS,
    "sum": NUMERIC,
    "avg": ["i", "f"],
    "min": COLUMNS,
    "max": COLUMNS,
    "array_agg": COLUMNS,
    "stddev_pop": NUMERIC,
    "bool_or": ["b"],
    "any_value": COLUMNS,
}
_LITE = ["g", "h", "i", "s"]


class Generator:
    """Random calls; each has an order that decides, where the value depends on it."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def rows(self, count: int) -> list[Row]:
        choose = self._source.choice
        return [
            {"id": i, **{name: choose(values) for name, values in VALUES.items()}}
            for i in range(count)
        ]

    def call(self) -> Call:
        choose = self._source.choice
        kind = choose(["numbering", "shift", "place", "aggregate", "aggregate", "aggregate"])
        partition = tuple(self._source.sample(["g", "h", "f"], choose([0, 1, 1, 2])))
        if kind == "numbering":
            function = choose(
                ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"]
            )
            arguments = (choose([1, 2, 3, 7, 100]),) if function == "ntile" else ()
            return Call(
                function, arguments, partition, self._order(function in ("row_number", "ntile"))
            )
        if kind == "shift":
            column = choose(COLUMNS)
            given: tuple[Any, ...] = (
                column,
                *([choose([0, 1, 2, 5, -1, None])] if choose([True, False]) else []),
            )
            if len(given) == 2 and choose([True, False]):
                given = (*given, column)
            return Call(
                choose(["lag", "lead"]),
                given,
                partition,
                self._order(True),
                ignore_nulls=choose([True, False]),
            )
        if kind == "place":
            function = choose(["first_value", "last_value", "nth_value"])
            given = (choose(COLUMNS), *([choose([1, 2, 4])] if function == "nth_value" else []))
            return self._framed(
                Call(function, given, partition, ignore_nulls=choose([True, False])), True
            )
        function = choose(list(AGGREGATES))
        given = (
            (choose(AGGREGATES[function]),)
            if function != "count" or choose([True, False])
            else ("*",)
        )
        depends = function in ("array_agg", "any_value")
        distinct = given != ("*",) and not depends and choose([True, False, False])
        threshold = choose([None, None, 5])
        return self._framed(
            Call(function, given, partition, distinct=distinct, threshold=threshold), depends
        )

    def _order(self, decides: bool) -> tuple[Key, ...]:
        choose = self._source.choice
        keys = [
            Key(column, choose([True, False]), choose([None, None, True, False]))
            for column in self._source.sample(COLUMNS, choose([0, 1, 1, 2]))
        ]
        if decides:
            keys.append(Key("id", choose([True, False])))
        return tuple(keys)

    def _framed(self, call: Call, depends: bool) -> Call:
        choose = self._source.choice
        unit = choose(["", "ROWS", "GROUPS", "RANGE", "RANGE"])
        order = self._order(depends or unit == "ROWS")
        if unit == "GROUPS" and not order:
            order = (Key("i"),)
        exclude = choose(["", "", "NO OTHERS", "CURRENT ROW", "GROUP", "TIES"])
        if exclude == "CURRENT ROW" and unit != "":
            order = (*order, Key("id"))
        offsets: list[Any] = [0, 1, 2, 3, 50]
        if unit == "RANGE":
            column = choose(list(OFFSETS))
            ranged = (Key(column, choose([True, False]), choose([None, None, True, False])),)
            if (
                not depends
                and exclude not in ("CURRENT ROW", "TIES")
                and choose([True, True, False])
            ):
                order, offsets = ranged, OFFSETS[column]
            else:
                offsets = []
        start, end = self._bounds(offsets)
        return Call(
            **{
                **{
                    name: getattr(call, name)
                    for name in ("function", "arguments", "partition", "ignore_nulls", "distinct")
                },
                "threshold": call.threshold,
                "order": order,
                "unit": unit,
                "start": start,
                "end": end,
                "exclude": exclude if unit else "",
            }
        )

    def _bounds(self, offsets: list[Any]) -> tuple[Bound, Bound]:
        kinds = [
            "UNBOUNDED PRECEDING",
            "PRECEDING",
            "CURRENT ROW",
            "FOLLOWING",
            "UNBOUNDED FOLLOWING",
        ]
        if not offsets:
            kinds = [kind for kind in kinds if " " in kind]
        first = self._source.randrange(len(kinds) - 1)
        last = self._source.randrange(max(first, 1), len(kinds))

        def bound(kind: str) -> Bound:
            return kind, (self._source.choice(offsets) if " " not in kind else None)

        return bound(kinds[first]), bound(kinds[last])


def differences(seed: int, count: int) -> Iterator[str]:
    """What our executors and the definition disagree on in `count` calls."""
    source = random.Random(seed)
    generator = Generator(source)
    rows = generator.rows(source.choice([1, 2, 17, 40, 90]))
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in SCHEMA.items()}
    )
    with runnel.connect() as connection:
        connection.register(
            "r", pa.concat_tables([table.slice(0, len(rows) // 3), table.slice(len(rows) // 3)])
        )
        lite = sqlite3.connect(":memory:")
        lite.execute("CREATE TABLE r (id INTEGER, g INTEGER, h TEXT, i INTEGER, s TEXT)")
        lite.executemany(
            "INSERT INTO r VALUES (?, ?, ?, ?, ?)",
            [(row["id"], *(row[c] for c in _LITE)) for row in rows],
        )
        for _ in range(count):
            call = generator.call()
            sql = f"SELECT id, {call.sql} FROM r"
            expected = values(call, rows)
            for way in (
                "SET query_parallelism = 1",
                "SET query_parallelism = 3",
                "SET fragment_rows = 0",
            ):
                connection.execute(way)
                found = _difference(connection, sql, expected)
                if found is not None:
                    yield f"{way}: {found}\n  seed {seed}: {sql}"
            connection.execute("RESET fragment_rows")
            found = _lite_difference(lite, call, sql, expected)
            if found is not None:
                yield f"SQLite: {found}\n  seed {seed}: {sql}"
        lite.close()


def _difference(connection: runnel.Connection, sql: str, expected: dict[int, Any]) -> str | None:
    try:
        found = dict(connection.execute(sql).fetchall())
    except runnel.Error as error:
        return repr(error)
    return _compared(found, expected)


def _compared(found: dict[int, Any], expected: dict[int, Any]) -> str | None:
    if found.keys() != expected.keys():
        return f"rows {sorted(found)}"
    wrong = {i: (found[i], expected[i]) for i in sorted(found) if not same(found[i], expected[i])}
    return f"{len(wrong)} of {len(found)}: {dict(list(wrong.items())[:6])}" if wrong else None


def _lite_difference(
    lite: sqlite3.Connection, call: Call, sql: str, expected: dict[int, Any]
) -> str | None:
    """None too where SQLite hasn't the types or the syntax."""
    used = {item for item in call.arguments if isinstance(item, str)} | {
        *call.partition,
        *(key.column for key in call.order),
    }
    offsets = [bound[1] for bound in (call.start, call.end)]
    plain = all(
        offset is None or (isinstance(offset, int) and offset < 2**40) for offset in offsets
    )
    unknown = (
        call.function in ("array_agg", "stddev_pop", "any_value", "bool_or")
        or call.ignore_nulls
        or call.distinct
    )
    # SQLite 3.40 forgets the FILTER of MIN and MAX where a frame moves.
    unknown |= call.function in ("min", "max") and call.threshold is not None
    negative = call.function in ("lag", "lead") and any(
        isinstance(item, int) and item < 0 for item in call.arguments
    )
    if (
        not used <= {"*", "id", *_LITE}
        or not plain
        or unknown
        or negative
        or None in call.arguments
    ):
        return None
    return _compared(dict(lite.execute(sql).fetchall()), expected)


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_generated_calls(seed: int) -> None:
    assert list(differences(seed, CALLS_PER_SEED)) == []


def test_a_wrong_answer_is_seen() -> None:
    assert _compared({1: 1, 2: None}, {1: 1, 2: 2}) is not None
    assert _compared({1: 1}, {1: 1, 2: 2}) is not None
    assert _compared({1: 1.0, 2: NAN}, {1: 1.0 + 1e-12, 2: NAN}) is None


def main(seconds: float, seed: int) -> None:
    end, done, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for difference in differences(seed, 50):
            found += 1
            print(difference, flush=True)
        done, seed = done + 50, seed + 1
    print(f"{done} calls, {found} differences; next seed {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
