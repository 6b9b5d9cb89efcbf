"""Division of DECIMALs against Python's integers, over numbers that have made Arrow's division
wrong and many others."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest

from runnel.expressions.build import call
from runnel.expressions.nodes import Column
from runnel.expressions.numbers.decimal_division import (
    RoundingMode,
    quotients,
    remainders,
    without_digits,
)
from runnel.sqltypes import BIGINT, SqlType, decimal
from tests.expressions.edge_values import Rows, literal

ROWS = 800
EXACT = Context(prec=300)


def _numbers(seed: int, digits: int, count: int = ROWS) -> list[int]:
    """Numbers of up to so many digits: any, near powers of ten and of two, near multiples and
    halves of them."""
    choice, most = random.Random(seed), 10**digits - 1
    found = [0, 1, -1, most, -most]
    while len(found) < count:
        power = 10 ** choice.randint(0, digits)
        small = choice.choice(
            [0, 1, 5, 25, choice.randint(0, 10 ** choice.randint(0, digits))]
        ) * 10 ** choice.randint(0, digits // 2)
        number = choice.choice(
            [
                choice.randint(0, most),
                choice.randint(0, 10 ** choice.randint(0, digits)),
                power - small,
                choice.randint(1, 9) * power + small,
                2 ** choice.randint(0, 3 * digits) - small,
                power * choice.randint(0, 999) + power // 2 - choice.randint(0, 1),
            ]
        )
        found.append(max(min(number, most), -most) * choice.choice([1, -1]))
    return found


def _array(numbers: list[int | None], arrow: pa.DataType) -> pa.Array:
    width = arrow.bit_width // 8
    data = b"".join(
        (0 if item is None else item).to_bytes(width, "little", signed=True) for item in numbers
    )
    array = pa.Array.from_buffers(arrow, len(numbers), [None, pa.py_buffer(data)])
    return pa.compute.if_else(
        pa.array([item is not None for item in numbers]), array, pa.nulls(1, arrow)[0]
    )


def _whole(array: pa.Array) -> list[int | None]:
    return [
        None if item is None else int(item.scaleb(array.type.scale, EXACT))
        for item in array.to_pylist()
    ]


def _half_up(number: int, divisor: int) -> int:
    size = (2 * abs(number) + abs(divisor)) // (2 * abs(divisor))
    return size if (number < 0) == (divisor < 0) else -size


def _cut(number: int, divisor: int) -> int:
    size = abs(number) // abs(divisor)
    return size if (number < 0) == (divisor < 0) else -size


MODES: dict[str, Callable[[int, int], int]] = {
    "half_up": _half_up,
    "towards_zero": _cut,
    "down": lambda number, divisor: number // divisor,
    "up": lambda number, divisor: -(-number // divisor),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("digits", [1, 8, 9, 10, 14, 18, 20, 27, 28, 36, 38, 60])
@pytest.mark.parametrize("precision", [38, 76])
def test_fewer_digits(precision: int, digits: int, mode: RoundingMode) -> None:
    numbers = _numbers(digits, precision)
    arrow = pa.decimal128(38, 0) if precision == 38 else pa.decimal256(76, 0)
    assert _whole(without_digits(_array(numbers, arrow), digits, mode)) == [
        MODES[mode](n, 10**digits) for n in numbers
    ]


@pytest.mark.parametrize(
    ("precision", "divisor_digits"),
    [(76, 38), (74, 30), (60, 20), (40, 12), (76, 9), (38, 5), (38, 38)],
)
def test_quotients(precision: int, divisor_digits: int) -> None:
    dividends = _numbers(1, precision)
    divisors = [item or 3 for item in _numbers(2, divisor_digits)]
    random.Random(3).shuffle(divisors)
    # A hundredfold quotient of more than 76 digits is refused: no DECIMAL result has as many.
    pairs = [
        (n, d) for n, d in zip(dividends, divisors, strict=True) if abs(n) * 100 < 10**76 * abs(d)
    ]
    assert len(pairs) > ROWS // 2
    for offset in (0, 3):
        upper = _array([0] * offset + [n for n, _ in pairs], pa.decimal256(76, 0))[offset:]
        lower = _array([0] * offset + [d for _, d in pairs], pa.decimal128(38, 0))[offset:]
        assert _whole(quotients(upper, lower)) == [_half_up(n, d) for n, d in pairs]
        assert _whole(quotients(upper, lower, "towards_zero")) == [_cut(n, d) for n, d in pairs]
        assert _whole(remainders(upper, lower)) == [n - d * _cut(n, d) for n, d in pairs]


def test_numbers_that_arrow_divides_wrongly() -> None:
    """What Arrow's own division makes wrong: near a multiple of the divisor's first 32 bits."""
    divisors = [10**k for k in range(10, 38)] + [3 * 2**k + 1 for k in range(34, 120)]
    pairs = [
        (d * (2**j) - e, d)
        for d in divisors
        for j in range(32, 130, 16)
        for e in (1, 2, 2**20)
        if d * 2**j < 10**73
    ]
    upper = _array([n for n, _ in pairs], pa.decimal256(76, 0))
    lower = _array([d for _, d in pairs], pa.decimal256(38, 0))
    assert _whole(quotients(upper, lower, "towards_zero")) == [n // d for n, d in pairs]
    assert _whole(remainders(upper, lower)) == [n % d for n, d in pairs]


@pytest.mark.parametrize("digits", [5, 30])
def test_nulls_and_single_values(digits: int) -> None:
    numbers = [None if i % 3 == 0 else item for i, item in enumerate(_numbers(5, 36))]
    wide, narrow = pa.decimal256(76, 0), pa.decimal128(38, 0)
    one = 10**digits + 7
    expected = [None if n is None else _half_up(n, one) for n in numbers]
    assert _whole(quotients(_array(numbers, wide), _array([one], narrow))) == expected
    divisors: list[int | None] = [
        None if i % 4 == 0 else item or 1 for i, item in enumerate(_numbers(6, digits))
    ]
    expected = [None if d is None else _half_up(10**40, d) for d in divisors]
    assert _whole(quotients(_array([10**40], wide), _array(divisors, narrow))) == expected
    assert _whole(quotients(_array([], wide), _array([], narrow))) == []
    assert _whole(quotients(_array([5, None], wide), _array([None, 0], narrow))) == [None, None]
    for zero in ([3, 0], [10**20, 0]):
        with pytest.raises(pa.ArrowInvalid, match="ivide by zero"):
            quotients(_array([1, 1], wide), _array(zero, narrow))


def _column(index: int, sql_type: SqlType) -> Column:
    return Column(index=index, name="xy"[index], type=sql_type)


TYPES = [(12, 2), (38, 10), (38, 20), (38, 38), (38, 0), (19, 6), (30, 15)]


@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", TYPES)
def test_division_of_columns(left: tuple[int, int], right: tuple[int, int]) -> None:
    """x / y and x % y of random DECIMALs, where the result has no more digits than its type."""
    first, second = decimal(*left), decimal(*right)
    for name in ("divide", "remainder"):
        operation = call(name, [_column(0, first), _column(1, second)])
        rows, expected = [], []
        for n, d in zip(_numbers(7, left[0], 700), _numbers(8, right[0], 700)[::-1], strict=True):
            x, y = Decimal(n).scaleb(-left[1], EXACT), Decimal(d or 1).scaleb(-right[1], EXACT)
            exact = EXACT.divide(x, y) if name == "divide" else EXACT.remainder(x, y)
            answer = exact.quantize(Decimal(1).scaleb(-operation.type.scale), ROUND_HALF_UP, EXACT)
            if abs(answer.scaleb(operation.type.scale, EXACT)) < 10**operation.type.precision:
                rows.append((x, y))
                expected.append(answer)
        table = Rows(x=(first, [x for x, _ in rows]), y=(second, [y for _, y in rows]))
        assert table.run(operation) == expected


@pytest.mark.parametrize("name", ["round", "truncate", "floor", "ceil"])
@pytest.mark.parametrize(
    "sql_type", [decimal(38, 20), decimal(38, 0), decimal(12, 2), decimal(38, 38)]
)
def test_rounding_functions(name: str, sql_type: SqlType) -> None:
    modes = {
        "round": ROUND_HALF_UP,
        "truncate": ROUND_DOWN,
        "floor": ROUND_FLOOR,
        "ceil": ROUND_CEILING,
    }
    numbers = [
        Decimal(n).scaleb(-sql_type.scale, EXACT) for n in _numbers(9, sql_type.precision, 700)
    ]
    for digits in (0,) if name in ("floor", "ceil") else (-39, -3, 0, 1, 12, 37):
        rest = [literal(digits, BIGINT)] if name in ("round", "truncate") else []
        operation = call(name, [_column(0, sql_type), *rest])
        exact = [
            n.quantize(Decimal(1).scaleb(-min(digits, sql_type.scale)), modes[name], EXACT)
            for n in numbers
        ]
        fits = [
            abs(n.scaleb(operation.type.scale, EXACT)) < 10**operation.type.precision for n in exact
        ]
        kept = [n for n, fit in zip(numbers, fits, strict=True) if fit]
        assert Rows(x=(sql_type, kept)).run(operation) == [
            n for n, fit in zip(exact, fits, strict=True) if fit
        ]
