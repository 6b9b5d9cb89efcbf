"""Each row once per list of projections."""

from __future__ import annotations

import pyarrow as pa

from runnel.expressions.nodes import Column, Expression, Literal
from runnel.processor import Item
from runnel.processors.expand import expand
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import verify_processor

KEY = Column(index=0, name="k", type=VARCHAR)
VALUE = Column(index=1, name="v", type=BIGINT)


def literal(value: int) -> Expression:
    return Literal(value=value, type=BIGINT)


def test_every_list_is_applied_to_every_row() -> None:
    given = [pa.RecordBatch.from_pydict({"k": ["a", None], "v": pa.array([1, 2], pa.int64())})]
    lists = ((VALUE, KEY, literal(0)), (VALUE, Literal(value=None, type=VARCHAR), literal(1)))
    expected = [(1, "a", 0), (2, None, 0), (1, None, 1), (2, None, 1)]
    verify_processor(expand(lists, ("v", "k", "s")), [given], expected, ordered=False)


def test_no_rows_give_no_rows() -> None:
    verify_processor(expand(((KEY,),), ("k",)), [[]], [])


def test_rows_without_a_column_are_still_counted() -> None:
    def counted(items: list[Item]) -> None:
        assert sum(item.num_rows for item in items if isinstance(item, pa.RecordBatch)) == 14

    rows = pa.RecordBatch.from_pydict({"k": pa.nulls(7, pa.string()), "v": pa.nulls(7, pa.int64())})
    verify_processor(expand(((), ()), ()), [[rows]], counted)
