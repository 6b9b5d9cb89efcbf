"""Random data with the edge values in it, and the processors' inputs and expressions made of it."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from runnel.expressions.nodes import Column
from runnel.processor import Item
from runnel.relation.nodes import Field
from runnel.sqltypes import from_arrow
from runnel.testing import verify_processor
from tests.shared_duckdb import duckdb_over

NAN = float("nan")
EDGES: dict[str, tuple[list[Any], pa.DataType]] = {
    "i": ([1, 2, 3, -7, None], pa.int64()),
    "t": ([-128, 127, 0, None], pa.int8()),
    "w": ([10**15, 5, -(10**17), None], pa.int64()),
    "f": ([1.5, -2.25, 0.0, -0.0, NAN, float("inf"), None], pa.float64()),
    "r": ([0.5, -0.0, 0.0, NAN, None], pa.float32()),
    "s": (["a", "bb", "", "zzzzzzzzzzz", None], pa.string()),
    "b": ([True, False, None], pa.bool_()),
    "d": ([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00"), None], pa.decimal128(10, 2)),
    "l": ([[1], [1, 2], [], [None], None], pa.list_(pa.int64())),
}


def random_table(seed: int, rows: int, columns: str, prefix: str = "") -> pa.Table:
    """`columns` are letters of EDGES, or "n" for the numbers of the rows."""
    rng = random.Random(seed)
    arrays = []
    for letter in columns:
        if letter == "n":
            arrays.append(pa.array(range(rows), pa.int64()))
        else:
            values, arrow = EDGES[letter]
            arrays.append(pa.array([rng.choice(values) for _ in range(rows)], arrow))
    return pa.table(arrays, names=[prefix + letter for letter in columns])


def columns_of(table: pa.Table, offset: int = 0) -> dict[str, Column]:
    """A column expression for each column, by name."""
    return {
        field.name: Column(index=offset + i, name=field.name, type=from_arrow(field.type))
        for i, field in enumerate(table.schema)
    }


def fields_of(table: pa.Table) -> tuple[Field, ...]:
    return tuple(Field(field.name, from_arrow(field.type)) for field in table.schema)


def duckdb_rows(sql: str, **tables: pa.Table) -> pa.Table:
    """What DuckDB answers, with Runnel's order of NULLs."""
    with duckdb_over(tables) as connection:
        return connection.sql(sql).to_arrow_table()


def outputs(
    supplier: Any, inputs: list[list[pa.RecordBatch]], **options: Any
) -> list[pa.RecordBatch]:
    """The batches that a processor gives, which must be the same rows under all conditions; those
    of the last run."""
    seen: list[list[Item]] = []
    verify_processor(supplier, inputs, lambda items: seen.append(list(items)), **options)
    return [item for item in seen[-1] if isinstance(item, pa.RecordBatch)]
