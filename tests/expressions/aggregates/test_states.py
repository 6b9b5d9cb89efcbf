"""Sums of integers that travelled as DECIMAL are added up in 64 bits where these are enough, and
never wrong."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from runnel.expressions.aggregates.states import WHOLE, SumInteger

LEAST, GREATEST = -(2**63), 2**63 - 1


def combined(values: list[int | None]) -> pa.Array:
    """The one sum of states, and that its column is not in the first place of its buffer doesn't
    matter."""
    states = pa.array(
        [Decimal(7), *(None if value is None else Decimal(value) for value in values)], WHOLE
    ).slice(1)
    (request,), collect = SumInteger().combine([states])
    table = (
        pa.table({"g": [1] * len(values), "s": request.column})
        .group_by("g")
        .aggregate([("s", request.function)])
    )
    (found,) = collect([table.column("s_sum").combine_chunks()])
    return found


@pytest.mark.parametrize(
    "values", [[1, 2], [None, -5], [None, None], [GREATEST // 2, 3], [LEAST // 2 + 1, 1]]
)
def test_in_64_bits(values: list[int | None]) -> None:
    found = combined(values)
    assert found.type == pa.int64()
    known = [value for value in values if value is not None]
    assert found.to_pylist() == [sum(known) if known else None]


@pytest.mark.parametrize(
    "values",
    [
        [GREATEST, 1],
        [LEAST, -1],
        [GREATEST + 1, -5],
        [2**64, -(2**64), 3],
        [10**37, None, 1],
        [LEAST - 1, 0],
    ],
)
def test_beyond_64_bits(values: list[int | None]) -> None:
    found = combined(values)
    assert pa.types.is_decimal(found.type)
    assert [int(value) for value in found.to_pylist()] == [
        sum(value for value in values if value is not None)
    ]
