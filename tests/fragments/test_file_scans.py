"""CSV and JSON files in fragments: the rows and the errors of our own readers, read on several
threads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Barrier, Event

import pyarrow as pa
import pytest

import runnel
from runnel.connector import END, End, SourcePartition
from runnel.connectors.parallel_reading import ParallelReading

ROWS = 15_000
"""So many rows make a file so large that two aren't read by one partition."""


class Numbers(SourcePartition):
    """Some batches of numbers; `before` is called before each of them."""

    def __init__(self, numbers: list[int], before: Callable[[], object] = lambda: None) -> None:
        self.numbers = iter(numbers)
        self.before = before

    def open(self, wake: Callable[[], None]) -> None: ...

    def read(self) -> pa.RecordBatch | End:
        number = next(self.numbers, None)
        if number is None:
            return END
        self.before()
        return pa.record_batch({"a": [number]})

    def close(self) -> None: ...


def rows_of(partition: SourcePartition) -> Iterator[pa.RecordBatch]:
    while isinstance(batch := partition.read(), pa.RecordBatch):
        yield batch


def input_threads() -> list[str]:
    return [
        item.name for item in threading.enumerate() if item.name.startswith("runnel-duckdb-input")
    ]


def test_partitions_are_read_at_once() -> None:
    together = Barrier(3, timeout=30)  # broken, unless three are read at the same time
    parts = [Numbers([i], together.wait) for i in range(3)]
    reading = ParallelReading(parts, rows_of, 3)
    assert sorted(batch["a"][0].as_py() for batch in reading.batches()) == [0, 1, 2]
    reading.stop()


def test_more_partitions_than_threads() -> None:
    parts = [Numbers(list(range(i * 100, i * 100 + 100))) for i in range(20)]
    reading = ParallelReading(parts, rows_of, 2)
    assert sorted(batch["a"][0].as_py() for batch in reading.batches()) == list(range(2000))
    reading.stop()
    assert input_threads() == []


def test_one_that_fails_ends_all() -> None:
    def fail() -> None:
        raise ValueError("broken")

    parts = [Numbers(list(range(1000))), Numbers([1], fail), Numbers(list(range(1000)))]
    reading = ParallelReading(parts, rows_of, 2)
    with pytest.raises(ValueError, match="broken"):
        list(reading.batches())
    reading.stop()
    assert input_threads() == []


def test_stopping_ends_threads_that_wait_for_room() -> None:
    begun = Event()
    reading = ParallelReading(
        [Numbers(list(range(10_000)), begun.set) for _ in range(2)], rows_of, 2
    )
    batches = reading.batches()
    next(batches)
    assert begun.wait(30)
    reading.stop()
    assert input_threads() == []
    assert list(batches) == []


def test_stopping_before_the_start() -> None:
    reading = ParallelReading([Numbers([1])], rows_of, 2)
    reading.stop()
    assert input_threads() == []


CSV_EDGES = [
    "1,x",
    "+1,x",
    " 2 ,x",
    '"3","a,b"',
    '4,"two\nlines"',
    '5,""',
    "6,",
    ",x",
    "-0,x",
    '007,"q""q"',
    "8,NULL\r",
]
JSON_EDGES = [
    '{"n": 1, "t": "x"}',
    '{"n": "2", "t": 1.50}',
    '{"n": " 3 ", "t": 1e3}',
    '{"n": null, "t": -0}',
    '{"t": {"x": 1.50, "y": [1, 2]}}',
    '{"n": 4, "t": "a", "t": "b"}',
    'null\n\n{"n": 5, "t": true, "other": NaN}',
    '{"n": 6, "t": "\\u00e9\\ud83d\\ude00"}',
    '{"n": 9223372036854775807, "t": 123456789012345678901234567890}',
]
WRONG = {
    "csv": ["x,y", "1.5,y", "9223372036854775808,y", "1,y,z", "1", '1,"never closed', "1e3x,y"],
    "json": [
        *(
            '{"n": 1.5}',
            '{"n": true}',
            '{"n": 9223372036854775808}',
            '{"n": [1]}',
            '{"n": 1,}',
            '{"n": 1, "o": [1,]}',
        ),
        *(
            '{"n": 1, "o": nan}',
            '{"n": 1} x',
            '{"n": 1',
            "5",
            '[{"n": 1}]',
            '{"n": 1, "t": "\\ud800"}',
        ),
    ],
}
SUM = "SELECT n, t, COUNT(*), COUNT(n) FROM f GROUP BY n, t"


@cache
def filler(kind: str, first: int, last: int) -> str:
    return "\n".join(
        f"{n % 10},{'text ' * 8}" if kind == "csv" else f'{{"n": {n % 10}, "t": "{"text " * 6}"}}'
        for n in range(first, last)
    )


def written(folder: Path, kind: str, edges: list[str], last: str = "") -> None:
    """Four files of more than half a MB with the edges in each, and in the third one the last
    line."""
    for i in range(4):
        halves = filler(kind, 0, ROWS // 2), filler(kind, ROWS // 2, ROWS)
        lines = [halves[0], *edges, halves[1], *([last] if i == 2 and last else [])]
        (folder / f"{i}.{kind}").write_text(
            "\n".join((["n,t"] if kind == "csv" else []) + lines) + "\n", encoding="utf-8"
        )


def outcome(folder: Path, **settings: object) -> object:
    """The rows of all files, or what the error says."""
    with runnel.connect(**settings) as connection:  # type: ignore[arg-type]
        if not settings:
            connection.execute("SET pushdown = off")
        kind = next(folder.iterdir()).suffix[1:]
        connection.execute(
            "CREATE MAPPING f (n BIGINT, t VARCHAR) TYPE File "
            f"OPTIONS ('path' = '{folder}', 'format' = '{kind}')"
        )
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {SUM}"))
        assert ("Fragment on DuckDB" in plan) == bool(settings)
        try:
            return sorted(connection.execute(SUM).fetchall(), key=repr)
        except runnel.Error as error:
            where = re.sub(r"(; )?in vertex .*", "", error.detail or "")
            return type(error), error.message, where, error.hint


@pytest.mark.parametrize(("kind", "edges"), [("csv", CSV_EDGES), ("json", JSON_EDGES)])
def test_edge_values_are_read_alike(tmp_path: Path, kind: str, edges: list[str]) -> None:
    written(tmp_path, kind, edges)
    own = outcome(tmp_path)
    assert isinstance(own, list)
    assert len(own) > len(edges)
    assert outcome(tmp_path, fragment_rows=0, cooperative_threads=4) == own


@pytest.mark.parametrize(
    ("kind", "line"), [(kind, line) for kind, lines in WRONG.items() for line in lines]
)
def test_errors_are_told_alike(tmp_path: Path, kind: str, line: str) -> None:
    written(tmp_path, kind, [], line)
    own = outcome(tmp_path)
    assert isinstance(own, tuple), own
    assert "2." + kind in f"{own[1]} {own[2]}"
    assert outcome(tmp_path, fragment_rows=0, cooperative_threads=4) == own
    assert input_threads() == []
