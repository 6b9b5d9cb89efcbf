"""LIMIT and OFFSET over rows as they come."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import Literal, Parameter
from runnel.processors.limit import limit
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from tests.processors.places import place
from tests.processors.random_tables import random_table


def number(value: int | None) -> Literal | None:
    return None if value is None else Literal(value=value, type=BIGINT)


CASES = [
    (None, None, range(20)),
    (5, None, range(5)),
    (5, 3, range(3, 8)),
    (None, 17, range(17, 20)),
    (100, 2, range(2, 20)),
    (3, 30, range(0)),
    (0, None, range(0)),
    (0, 5, range(0)),
    (20, 0, range(20)),
]


@pytest.mark.parametrize(("count", "offset", "expected"), CASES)
@pytest.mark.parametrize("size", [1, 4, 20])
def test_cases(count: int | None, offset: int | None, expected: range, size: int) -> None:
    batches = random_table(0, 20, "n").to_batches(max_chunksize=size)
    verify_processor(limit(number(count), number(offset)), [batches], [(i,) for i in expected])


def test_is_satisfied_as_soon_as_it_has_enough() -> None:
    processor = limit(number(3), number(1))()
    processor.init(*place())
    assert not processor.is_satisfied
    processor.take(0, pa.RecordBatch.from_pydict({"n": [1, 2, 3]}))
    assert not processor.is_satisfied
    processor.take(0, pa.RecordBatch.from_pydict({"n": [4, 5]}))
    assert processor.is_satisfied


def test_nothing_is_wanted_from_the_start() -> None:
    processor = limit(number(0), None)()
    processor.init(*place())
    assert processor.is_satisfied


def test_parameters() -> None:
    evaluation = EvaluationContext(arguments=(scalar_of(2, BIGINT), scalar_of(1, BIGINT)))
    supplier = limit(Parameter(index=0, type=BIGINT), Parameter(index=1, type=BIGINT))
    verify_processor(
        supplier, [random_table(0, 5, "n").to_batches()], [(1,), (2,)], evaluation=evaluation
    )


def test_bad_values() -> None:
    processor = limit(number(-1), None)()
    with pytest.raises(DataError, match="LIMIT value cannot be negative"):
        processor.init(*place())
    null = limit(None, Literal(value=None, type=BIGINT))()
    with pytest.raises(DataError, match="OFFSET value cannot be null"):
        null.init(*place())
