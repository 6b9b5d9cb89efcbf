"""The computations of the document on Jet's concepts, one for one: word count in each of its forms,
and trades in sliding and session windows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, Supplier, Vertex, between
from runnel.processors.library import (
    accumulate_by_key,
    accumulate_by_pane,
    aggregate_by_key,
    aggregate_by_session,
    aggregate_by_window,
    combine_by_key,
    combine_by_window,
    counting,
    flat_map,
    insert_watermarks,
    read_mapping,
    sink_to_list,
    sliding,
    source_of,
    write_mapping,
)
from runnel.testing.rows import rows_of
from tests.jobs.named import PATIENCE

LINES = [
    "It was the best of times,",
    "it was the worst of times,",
    "",
    "it was the age of wisdom; it was the age of foolishness",
]
DELIMITER = re.compile(r"\W+")


def counted_in_one_thread() -> dict[str, int]:
    """The listing in a single thread: two loops, and a map of counts."""
    counts: dict[str, int] = {}
    for line in LINES:
        for word in DELIMITER.split(line.lower()):
            if word:
                counts[word] = counts.get(word, 0) + 1
    return counts


def tokenize(lines: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The loop of the tokenizer."""
    for line in lines.column("line").to_pylist():
        words = [word for word in DELIMITER.split(line.lower()) if word]
        yield pa.RecordBatch.from_pydict({"word": pa.array(words, pa.string())})


def lines() -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"line": [line]}) for line in LINES]


def one_processor_per_vertex(dag: DAG) -> Vertex:
    """Source, tokenizer and accumulator, each in one processor."""
    source = dag.vertex("source", source_of(lines()), 1)
    tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 1)
    accumulator = dag.vertex("accumulator", aggregate_by_key("word", n=counting()), 1)
    dag.edge(between(source, tokenizer)).edge(between(tokenizer, accumulator))
    return accumulator


def parallel_tokenizer(dag: DAG) -> Vertex:
    """Any tokenizer that has room receives the next line."""
    source = dag.vertex("source", source_of(lines()), 1)
    tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 2)
    accumulator = dag.vertex("accumulator", aggregate_by_key("word", n=counting()), 1)
    dag.edge(between(source, tokenizer)).edge(between(tokenizer, accumulator))
    return accumulator


def partitioned_accumulator(dag: DAG) -> Vertex:
    """All occurrences of a word go to the same accumulator."""
    source = dag.vertex("source", source_of(lines()), 1)
    tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 2)
    accumulator = dag.vertex("accumulator", aggregate_by_key("word", n=counting()), 2)
    dag.edge(between(source, tokenizer))
    dag.edge(between(tokenizer, accumulator).partitioned("word"))
    return accumulator


def lowest_bit(keys: pa.RecordBatch, count: int) -> list[int]:
    """The switchboard of the document: a hash of the word, modulo the number of accumulators."""
    return [sum(word.encode()) % count for word in keys.column("word").to_pylist()]


def own_switchboard(dag: DAG) -> Vertex:
    source = dag.vertex("source", source_of(lines()), 1)
    tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 2)
    accumulator = dag.vertex("accumulator", aggregate_by_key("word", n=counting()), 2)
    dag.edge(between(source, tokenizer))
    dag.edge(between(tokenizer, accumulator).partitioned_by(lowest_bit, "word"))
    return accumulator


def accumulate_and_combine(dag: DAG) -> Vertex:
    """Each accumulator counts the words of its tokenizer; one row per distinct word goes on."""
    source = dag.vertex("source", source_of(lines()), 1)
    tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 2)
    accumulate = dag.vertex("accumulate", accumulate_by_key("word", n=counting()), 2)
    combine = dag.vertex("combine", combine_by_key("word", n=counting()), 2)
    dag.edge(between(source, tokenizer)).edge(between(tokenizer, accumulate).isolated())
    dag.edge(between(accumulate, combine).partitioned("word"))
    return combine


@pytest.mark.parametrize(
    "build",
    [
        one_processor_per_vertex,
        parallel_tokenizer,
        partitioned_accumulator,
        own_switchboard,
        accumulate_and_combine,
    ],
)
def test_word_count(build: Any) -> None:
    result: list[pa.RecordBatch] = []
    dag = DAG()
    last = build(dag)
    dag.edge(between(last, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    assert dict(rows_of(result)) == counted_in_one_thread()
    assert sum(len(batch) for batch in result) == len(Counter(counted_in_one_thread()))


def test_word_count_from_a_map_to_a_map() -> None:
    """The form of the Pipeline API: it draws lines from a map and drains counts to a map."""
    with runnel.connect() as connection:
        connection.execute(
            'CREATE MAPPING book (id BIGINT EXTERNAL NAME "__key", line VARCHAR EXTERNAL NAME '
            "\"this\") TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
        )
        connection.execute(
            'CREATE MAPPING counts (word VARCHAR EXTERNAL NAME "__key", n BIGINT EXTERNAL NAME '
            "\"this\") TYPE IMap OPTIONS ('keyFormat'='varchar', 'valueFormat'='bigint')"
        )
        for number, line in enumerate(LINES):
            connection.execute("INSERT INTO book VALUES (?, ?)", (number, line))
        dag = DAG()
        source = dag.vertex("source", read_mapping("book", ["line"]))
        tokenizer = dag.vertex("tokenizer", flat_map(tokenize), 2)
        accumulate = dag.vertex("accumulate", accumulate_by_key("word", n=counting()), 2)
        combine = dag.vertex("combine", combine_by_key("word", n=counting()), 2)
        sink = dag.vertex("sink", write_mapping("counts", "sink"))
        dag.edge(between(source, tokenizer)).edge(between(tokenizer, accumulate).isolated())
        dag.edge(between(accumulate, combine).partitioned("word")).edge(between(combine, sink))
        connection.submit(dag).join(PATIENCE)
        found = connection.execute("SELECT word, n FROM counts").fetchall()
    assert dict(found) == counted_in_one_thread()


START = datetime(2026, 1, 1)
SECOND = timedelta(seconds=1)
WINDOW: Any = {"time": "time", "window": sliding(30 * SECOND, 10 * SECOND), "n": counting()}


def trades() -> pa.Table:
    random = Random(1)
    seconds = [number // 3 + random.randrange(10) for number in range(240)]
    return pa.table(
        {
            "time": pa.array([START + second * SECOND for second in seconds]),
            "ticker": [random.choice(["A", "B", "C"]) for _ in seconds],
        }
    )


def windowed(*steps: Supplier) -> list[tuple[Any, ...]]:
    """Trades in windows; the last of the steps is partitioned by ticker."""
    result: list[pa.RecordBatch] = []
    dag = DAG()
    source = dag.vertex("trades", source_of(trades().to_batches(max_chunksize=16)), 1)
    order = dag.vertex("watermarks", insert_watermarks("time", lag=10 * SECOND), 1)
    dag.edge(between(source, order))
    last = order
    for number, step in enumerate(steps):
        vertex = dag.vertex(f"stage {number + 1}", step, 2)
        edge = between(last, vertex)
        dag.edge(edge.partitioned("ticker") if number == len(steps) - 1 else edge)
        last = vertex
    dag.edge(between(last, dag.vertex("sink", sink_to_list(result), 1)))
    with runnel.connect() as connection:
        connection.submit(dag).join(PATIENCE)
    return sorted(rows_of(result))


def by_sql(windows: str) -> list[tuple[Any, ...]]:
    with runnel.connect() as connection:
        connection.register("trades", trades())
        rows = connection.execute(
            f"SELECT window_start, window_end, ticker, COUNT(*) FROM TABLE({windows}) "
            "GROUP BY window_start, window_end, ticker"
        ).fetchall()
    return sorted(rows)


@pytest.mark.parametrize("stages", [1, 2])
def test_trades_in_a_window_of_30_seconds_that_slides_by_10(stages: int) -> None:
    steps = (
        [aggregate_by_window("ticker", **WINDOW)]
        if stages == 1
        else [accumulate_by_pane("ticker", **WINDOW), combine_by_window("ticker", **WINDOW)]
    )
    hop = "HOP(TABLE trades, DESCRIPTOR(time), INTERVAL '30' SECOND, INTERVAL '10' SECOND)"
    assert windowed(*steps) == by_sql(hop)


def test_trades_in_session_windows() -> None:
    step = aggregate_by_session("ticker", time="time", gap=2 * SECOND, n=counting())
    session = "SESSION(TABLE trades PARTITION BY ticker, DESCRIPTOR(time), INTERVAL '2' SECOND)"
    assert windowed(step) == by_sql(session)
