"""UNNEST, compared with DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.expressions import build
from runnel.expressions.nodes import Literal
from runnel.processors.unnest import CHUNK_BYTES, unnest
from runnel.sqltypes import VARCHAR
from runnel.testing import verify_processor
from tests.processors.random_tables import columns_of, outputs, random_table


def wanted(table: pa.Table, outer: bool, ordinality: bool) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for row in table.to_pylist():
        items = [(item, number) for number, item in enumerate(row["l"] or [], 1)]
        if outer and not items:
            items = [(None, None)]
        rows += [
            (*row.values(), item, number)[: None if ordinality else -1] for item, number in items
        ]
    return rows


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("ordinality", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_rows_times_elements(outer: bool, ordinality: bool, rows: int) -> None:
    table = random_table(3, rows, "nls")
    names = ("n", "l", "s", "item", *(["place"] if ordinality else []))
    supplier = unnest(columns_of(table)["l"], outer, "place" if ordinality else None, names)
    verify_processor(
        supplier, [table.to_batches(max_chunksize=8)], wanted(table, outer, ordinality)
    )


def test_sliced_batches() -> None:
    table = random_table(3, 20, "nl")
    (batch,) = table.to_batches()
    supplier = unnest(columns_of(table)["l"], False, None, ("n", "l", "item"))
    rows = [row[:-1] for row in wanted(table.slice(5, 9), False, True)]
    verify_processor(supplier, [[batch.slice(5, 9)]], rows)


def test_text_elements_of_a_call() -> None:
    lines = pa.table([pa.array(["a b", "", None, "c"])], names=["line"])
    (line,) = columns_of(lines).values()

    words = build.call("regexp_split_to_array", [line, Literal(value=" ", type=VARCHAR)])
    rows = [("a b", "a"), ("a b", "b"), ("", ""), ("c", "c")]
    verify_processor(unnest(words, False, None, ("line", "word")), [lines.to_batches()], rows)


def large_lists() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(range(200)), "l": [list(range(1000))] * 200})


def test_a_large_expansion_comes_in_pieces_of_the_chosen_columns() -> None:
    lists = large_lists()
    array = columns_of(pa.Table.from_batches([lists]))["l"]
    supplier = unnest(array, False, None, ("item", "n"), columns=(2, 0))

    def check(items: list[pa.RecordBatch]) -> None:
        assert [item.num_rows for item in items] == [65_536, 65_536, 65_536, 3392]
        assert items[0].schema.names == ["item", "n"]
        assert items[0].column("n")[999].as_py() == 0
        assert items[0].column("n")[1000].as_py() == 1
        assert items[1].column("item")[0].as_py() == 65_536 % 1000

    verify_processor(supplier, [[lists]], check, row_by_row=False)


def test_no_columns_at_all() -> None:
    lists = large_lists().slice(0, 3)
    array = columns_of(pa.Table.from_batches([lists]))["l"]
    verify_processor(
        unnest(array, False, None, (), columns=()), [[lists]], [()] * 3000, row_by_row=False
    )


def test_repeated_arrays_make_smaller_pieces() -> None:
    lists = large_lists().slice(0, 5)
    array = columns_of(pa.Table.from_batches([lists]))["l"]
    pieces = outputs(unnest(array, False, None, ("n", "l", "item")), [[lists]], row_by_row=False)
    assert sum(piece.num_rows for piece in pieces) == 5000
    assert 1 < len(pieces) < 10
    assert max(piece.nbytes for piece in pieces) < 2 * CHUNK_BYTES
