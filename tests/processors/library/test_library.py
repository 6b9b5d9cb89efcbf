"""Ready-made processors, alone and in whole DAGs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.dag import DAG, between
from runnel.errors import ProgrammingError
from runnel.processors.library import (
    AggregateOperation,
    accumulate_by_key,
    aggregate_by_key,
    averaging,
    combine_by_key,
    counting,
    filter_rows,
    flat_map,
    map_batches,
    maximum,
    minimum,
    sink_to,
    sink_to_list,
    source_of,
    summing,
    to_list,
)
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.processors.random_tables import outputs, random_table

QUICK: dict[str, Any] = {"row_by_row": False}
LINES = ["the cat and the dog", "", "the end", "dog and dog"]


def split_into_words(lines: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    words = pc.split_pattern(lines.column("line"), " ").flatten()
    yield pa.RecordBatch.from_arrays([words.filter(pc.not_equal(words, ""))], names=["word"])


def test_map_filter_and_flat_map() -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, None, 3, 4]})
    verify_processor(
        filter_rows(lambda batch: pc.greater(batch.column("n"), 2)), [[rows]], [(3,), (4,)]
    )
    double = map_batches(
        lambda batch: pa.RecordBatch.from_arrays(
            [pc.add(batch.column(0), batch.column(0))], names=["m"]
        )
    )
    verify_processor(double, [[rows]], [(2,), (None,), (6,), (8,)])
    verify_processor(map_batches(lambda batch: None), [[rows]], [])
    verify_processor(
        flat_map(lambda batch: [batch, batch.slice(0, 0), batch]),
        [[rows.slice(0, 1)]],
        [(1,), (1,)],
    )


def test_sources() -> None:
    table = random_table(1, 20, "n")
    rows = [(i,) for i in range(20)]
    for data in (
        table,
        table.to_batches()[0],
        table.to_batches(max_chunksize=3),
        lambda: iter(table.to_batches(max_chunksize=3)),
    ):
        verify_processor(source_of(data), [], rows, snapshots=False)
    with pytest.raises(ProgrammingError, match="a source is made of"):
        source_of([1, 2])  # type: ignore[list-item]


def test_a_source_is_dealt_out() -> None:
    supplier = source_of(random_table(1, 20, "n").to_batches(max_chunksize=5))
    processors = supplier.get(3)  # type: ignore[union-attr]
    assert [list(processor._left) for processor in processors] == [[0, 3], [1], [2]]


def test_sinks() -> None:
    seen: list[int] = []
    batches: list[pa.RecordBatch] = []
    rows = random_table(1, 3, "n").to_batches()
    verify_processor(
        sink_to(lambda batch: seen.extend(batch.column(0).to_pylist())), [rows], [], **QUICK
    )
    verify_processor(sink_to_list(batches), [rows], [], **QUICK)
    assert seen[:3] == [0, 1, 2]
    assert_rows(batches[:1], [(0,), (1,), (2,)])


def python_sum(column: str) -> AggregateOperation:
    """The user's own: a sum as a Python list of one number."""
    return AggregateOperation(
        create=lambda: [0],
        accumulate=lambda total, rows: [total[0] + (pc.sum(rows.column(column)).as_py() or 0)],
        combine=lambda a, b: [a[0] + b[0]],
        deduct=lambda a, b: [a[0] - b[0]],
        export=lambda total: total[0],
        type=pa.int64(),
    )


def by_hand(rows: list[dict[str, Any]], *keys: str) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row["n"])
    return groups


@pytest.mark.parametrize("keys", [("s",), ("i", "s"), ("b",)])
@pytest.mark.parametrize("own", [False, True])
def test_one_stage_and_two_give_the_same(keys: tuple[str, ...], own: bool) -> None:
    table = random_table(8, 60, "isbn")
    operations = {"total": python_sum("n") if own else summing("n"), "rows": counting()}
    wanted = [
        (*key, sum(values), len(values))
        for key, values in by_hand(table.to_pylist(), *keys).items()
    ]
    batches = table.to_batches(max_chunksize=13)
    verify_processor(
        aggregate_by_key(*keys, **operations), [batches], wanted, ordered=False, **QUICK
    )
    first = accumulate_by_key(*keys, **operations)
    partial = [*outputs(first, [batches[:2]], **QUICK), *outputs(first, [batches[2:]], **QUICK)]
    assert partial[0].schema.names[: len(keys)] == list(keys)
    verify_processor(combine_by_key(*keys, **operations), [partial], wanted, ordered=False, **QUICK)


OPERATIONS = {
    "count": counting(),
    "sum": summing("d"),
    "mean": averaging("n"),
    "least": minimum("s"),
    "most": maximum("n"),
    "items": to_list("n"),
}


def test_ready_made_operations_equal_their_sql_aggregates() -> None:
    table = random_table(9, 50, "isdn").filter(pc.is_valid(random_table(9, 50, "isdn").column("d")))
    without = {
        name: AggregateOperation(
            create=item.create,
            accumulate=item.accumulate,
            combine=item.combine,
            export=item.export,
            deduct=item.deduct,
        )
        for name, item in OPERATIONS.items()
    }
    batches = table.to_batches(max_chunksize=11)
    vectorised = rows_of(outputs(aggregate_by_key("i", **OPERATIONS), [batches], **QUICK))
    one_by_one = rows_of(outputs(aggregate_by_key("i", **without), [batches], **QUICK))
    assert_rows(vectorised, one_by_one, ordered=False)


def test_what_is_deducted_was_never_there() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, None, 5]})
    more = pa.RecordBatch.from_pydict({"x": [7, 8]})
    for operation, wanted in (
        (counting(), 3),
        (summing("x"), 6),
        (averaging("x"), 3.0),
        (python_sum("x"), 6),
    ):
        assert operation.deduct is not None
        both = operation.accumulate(operation.accumulate(operation.create(), rows), more)
        left = operation.deduct(both, operation.accumulate(operation.create(), more))
        assert operation.export(left) == wanted


def test_keys_that_are_the_same() -> None:
    nan = float("nan")
    keys = pa.array([0.0, -0.0, nan, nan, None, None])
    batch = pa.RecordBatch.from_arrays([keys, pa.array([1] * 6)], names=["k", "n"])
    for operation in (python_sum("n"), summing("n")):
        actual = outputs(
            aggregate_by_key("k", total=operation), [[batch.slice(0, 3), batch.slice(3)]], **QUICK
        )
        assert_rows(actual, [(0.0, 2), (nan, 2), (None, 2)], ordered=False)


def test_columns_of_other_arrow_types() -> None:
    keys = pa.array(["a", "b", "a"]).dictionary_encode()
    numbers = pa.array([1, 2, 3], pa.uint16())
    batch = pa.RecordBatch.from_arrays([keys, numbers], names=["k", "n"])
    for total in (summing("n"), python_sum("n")):
        verify_processor(
            aggregate_by_key("k", total=total),
            [[batch]],
            [("a", 4), ("b", 2)],
            ordered=False,
            **QUICK,
        )


def test_unknown_columns_and_missing_keys() -> None:
    rows = random_table(1, 3, "n").to_batches()
    with pytest.raises(ProgrammingError, match='column "m" not found in the batch') as raised:
        verify_processor(aggregate_by_key("m", c=counting()), [rows], [], **QUICK)
    assert raised.value.hint == "the batch has: n"
    with pytest.raises(ProgrammingError, match="needs at least one key column"):
        aggregate_by_key(c=counting())


def word_count(result: list[pa.RecordBatch]) -> DAG:
    dag = DAG()
    batches = [pa.RecordBatch.from_pydict({"line": [line]}) for line in LINES]
    lines = dag.vertex("lines", source_of(batches))
    words = dag.vertex("words", flat_map(split_into_words))
    accumulate = dag.vertex("accumulate", accumulate_by_key("word", count=counting()))
    combine = dag.vertex("combine", combine_by_key("word", count=counting()))
    sink = dag.vertex("sink", sink_to_list(result), parallelism=1)
    dag.edge(between(lines, words)).edge(between(words, accumulate).isolated())
    return dag.edge(between(accumulate, combine).partitioned("word")).edge(between(combine, sink))


def test_word_count() -> None:
    wanted = Counter(word for line in LINES for word in line.split())
    result: list[pa.RecordBatch] = []
    dag = word_count(result)
    with runnel.connect() as connection:
        for _ in range(2):
            result.clear()
            connection.submit(dag).join()
            assert_rows(result, [*wanted.items()], ordered=False)


def test_decimal_sums_of_the_users_types() -> None:
    batch = pa.RecordBatch.from_pydict({"k": [1, 1], "d": [Decimal("0.10"), Decimal("0.20")]})
    verify_processor(
        aggregate_by_key("k", total=summing("d")), [[batch]], [(1, Decimal("0.30"))], **QUICK
    )
