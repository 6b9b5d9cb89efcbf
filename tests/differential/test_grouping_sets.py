"""Generated GROUPING SETS, ROLLUP and CUBE give what grouping once per set gives, worked out here
in plain Python, and what DuckDB gives, on one processor, on several, and as a fragment.

`python -m tests.differential.test_grouping_sets SECONDS
[SEED]` goes on for as long as told and prints what it finds.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import isnan
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import runnel
from tests.differential.tables import SCHEMA, tables
from tests.differential.test_generated import _agree, _sorted
from tests.effort import some
from tests.slt.oracle import SETTINGS

SEEDS = range(4)
QUERIES_PER_SEED = 12
KEYS = ["k", "s", "b", "t", "f", "i % 2", "(k IS NULL)"]
AGGREGATES = [
    "COUNT(*)",
    "COUNT(i)",
    "SUM(k)",
    "MAX(s)",
    "COUNT(DISTINCT k)",
    "SUM(k + 1) FILTER (WHERE i > 0)",
    "BOOL_OR(b)",
]

Row = dict[str, Any]
Sets = list[tuple[int, ...]]


class Grouping:
    """A random GROUP BY with its sets, over `keys`."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.keys = source.sample(KEYS, source.choice([1, 2, 2, 3]))
        self.sets: Sets = [()]
        parts = []
        for _ in range(source.choice([1, 1, 2])):
            text, sets = self._item(0)
            parts.append(text)
            self.sets = [
                tuple(dict.fromkeys(first + second)) for first in self.sets for second in sets
            ]
        self.text = ", ".join(parts)
        used = {number for kept in self.sets for number in kept}
        self.shown = [number for number in range(len(self.keys)) if number in used]
        # DuckDB takes an expression, its ordinal and its alias in one GROUP BY for different keys:
        # it gets expressions alone.
        self.plain_text = _filled(self.text, lambda number: self.keys[number])
        self.text = _filled(self.text, self._key_text)
        self.select_list = [f"{self.keys[number]} AS key_{number}" for number in self.shown]

    def _key_text(self, number: int) -> str:
        """A key as a user may write it: the expression, its ordinal or its alias, in parentheses or
        not."""
        text = self._source.choice(
            [
                self.keys[number],
                self.keys[number],
                str(self.shown.index(number) + 1),
                f"key_{number}",
            ]
        )
        return f"({text})" if self._source.random() < 0.3 else text

    def query(self, table: str, grouping: str) -> str:
        shown = [self.keys[number] for number in self.shown]
        bits = f"GROUPING({', '.join(shown)})" if shown else "0"
        return (
            f"SELECT {', '.join([*self.select_list, bits, *AGGREGATES])} FROM {table} "
            f"GROUP BY {grouping}"
        )

    def _item(self, depth: int) -> tuple[str, Sets]:
        kind = self._source.choice(
            ["plain", "ROLLUP", "CUBE", "SETS", "SETS"] if depth < 2 else ["plain", "ROLLUP"]
        )
        if kind == "plain":
            return self._element()
        if kind == "SETS":
            members = [self._item(depth + 1) for _ in range(self._source.choice([1, 2, 3]))]
            return f"GROUPING SETS ({', '.join(text for text, _ in members)})", [
                s for _, sets in members for s in sets
            ]
        elements = [
            self._element(may_be_empty=False) for _ in range(self._source.choice([1, 2, 3]))
        ]
        keys = [sets[0] for _, sets in elements]
        text = f"{kind} ({', '.join(text for text, _ in elements)})"
        if kind == "ROLLUP":
            chosen: list[Sequence[tuple[int, ...]]] = [
                keys[:count] for count in range(len(keys), -1, -1)
            ]
        else:
            chosen = [
                picked for size in range(len(keys), -1, -1) for picked in combinations(keys, size)
            ]
        return text, [tuple(number for part in picked for number in part) for picked in chosen]

    def _element(self, may_be_empty: bool = True) -> tuple[str, Sets]:
        count = self._source.choice([1, 1, 1, 2, 0] if may_be_empty else [1, 1, 2])
        numbers = [self._source.randrange(len(self.keys)) for _ in range(count)]
        text = ", ".join(f"<{number}>" for number in numbers)
        return (text if count == 1 else f"({text})"), [tuple(dict.fromkeys(numbers))]


def _filled(text: str, key_text: Callable[[int], str]) -> str:
    return re.sub(r"<(\d+)>", lambda found: key_text(int(found[1])), text)


def expected_rows(grouping: Grouping, rows: list[Row]) -> list[tuple[Any, ...]]:
    """The keys shown, GROUPING of them, and the aggregates, for each set."""
    found = []
    for kept in map(_unique, grouping.sets):
        groups: dict[Any, list[Row]] = {} if kept else {(): []}
        names: dict[Any, tuple[Any, ...]] = {(): ()}
        for row in rows:
            values = tuple(_key(grouping.keys[number], row) for number in kept)
            same = tuple("NaN" if isinstance(v, float) and isnan(v) else v for v in values)
            names.setdefault(same, values)
            groups.setdefault(same, []).append(row)
        for same, members in groups.items():
            of_key = dict(zip(kept, names[same], strict=True))
            shown = [of_key.get(number) for number in grouping.shown]
            bits = sum(
                (number not in kept) << place
                for place, number in enumerate(reversed(grouping.shown))
            )
            found.append((*shown, bits, *_aggregated(members)))
    return found


def _unique(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))


def _key(text: str, row: Row) -> Any:
    if text == "i % 2":
        return None if row["i"] is None else int(abs(row["i"]) % 2 * (1 if row["i"] > 0 else -1))
    if text == "(k IS NULL)":
        return row["k"] is None
    value = row[text]
    return value + 0.0 if isinstance(value, float) else value


def _aggregated(rows: list[Row]) -> tuple[Any, ...]:
    def known(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    filtered = [
        row["k"] + 1
        for row in rows
        if row["i"] is not None and row["i"] > 0 and row["k"] is not None
    ]
    return (
        len(rows),
        len(known("i")),
        sum(known("k")) if known("k") else None,
        max(known("s"), default=None, key=lambda text: text.encode()),
        len(set(known("k"))),
        sum(filtered) if filtered else None,
        any(known("b")) if known("b") else None,
    )


def differences(seed: int, count: int) -> Iterator[str]:
    source = random.Random(seed)
    plain = tables(source)
    with runnel.connect() as ours, duckdb.connect() as theirs:
        for setting in SETTINGS:
            theirs.execute(setting)
        for name, table in plain.items():
            theirs.register(name, table)
            ours.register(name, table)
        for _ in range(count):
            grouping, name = Grouping(source), source.choice(list(plain))
            sql, plain_sql = (
                grouping.query(name, grouping.text),
                grouping.query(name, grouping.plain_text),
            )
            expected = expected_rows(grouping, plain[name].to_pylist())
            for way in (
                "SET query_parallelism = 1",
                "SET query_parallelism = 3",
                "SET fragment_rows = 0",
            ):
                ours.execute(way)
                found = _compared(ours, sql, expected)
                if found is not None:
                    yield f"{way}: {found}\n  seed {seed}: {sql}"
            ours.execute("RESET fragment_rows")
            if name != "e" and not _agree(
                theirs.execute(plain_sql).fetchall(), expected, is_ordered=False
            ):
                yield f"DuckDB and the definition differ\n  seed {seed}: {plain_sql}"


def _compared(connection: Any, sql: str, expected: list[tuple[Any, ...]]) -> str | None:
    try:
        found = connection.execute(sql).fetchall()
    except runnel.Error as error:
        return repr(error)
    if _agree(found, expected, is_ordered=False):
        return None
    return f"{_sorted(found)[:8]}\n  not {_sorted(expected)[:8]}"


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_generated_grouping_sets(seed: int) -> None:
    assert list(differences(seed, QUERIES_PER_SEED)) == []


def test_a_wrong_answer_is_seen() -> None:
    assert not _agree([(None, 1)], [(None, 2)], is_ordered=False)
    table = pa.table({name: pa.nulls(1, kind) for name, kind in SCHEMA.items()})
    grouping = Grouping(random.Random(1))
    grouping.keys, grouping.sets, grouping.shown = ["k"], [(0,), ()], [0]
    rows = expected_rows(grouping, table.to_pylist())
    assert [row[:3] for row in rows] == [(None, 0, 1), (None, 1, 1)]


def main(seconds: float, seed: int) -> None:
    end, done, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for difference in differences(seed, 50):
            found += 1
            print(difference, flush=True)
        done, seed = done + 50, seed + 1
    print(f"{done} queries, {found} differences; next seed {seed}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
