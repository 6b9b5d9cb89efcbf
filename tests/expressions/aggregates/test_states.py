"""Sums of integers that travelled as DECIMAL are added up in 64 bits where these are enough, and
never wrong."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.aggregates.registry import SPREADS
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


UNUSUAL = (
    "(VALUES (1, 1e0), (1, CAST('inf' AS DOUBLE)), (1, CAST('-inf' AS DOUBLE)), "
    "(2, CAST('nan' AS DOUBLE)), (2, 1e308), (2, -1e308), (3, CAST(NULL AS DOUBLE))) AS t(k, x)"
)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, "x") for name in (*SPREADS, "skewness", "kurtosis", "kurtosis_pop")),
        *((name, "x, x") for name in ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_r2")),
    ],
)
@pytest.mark.parametrize("distinct", ["", "DISTINCT "])
def test_infinities_and_large_numbers(
    connection: runnel.Connection, name: str, arguments: str, distinct: str
) -> None:
    """A warning of numpy would fail the query. DISTINCT combines states of one row each."""
    call = f"{name}({distinct}{arguments})"
    with connection:
        rows = connection.execute(f"SELECT k, {call} FROM {UNUSUAL} GROUP BY k ORDER BY k")
        assert [key for key, _ in rows.fetchall()] == [1, 2, 3]
        rows = connection.execute(
            f"SELECT {call} OVER (PARTITION BY k ORDER BY x "
            f"ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {UNUSUAL}"
        )
        assert len(rows.fetchall()) == 7
