"""Functions on the bits of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers, numbers, validity
from runnel.errors import DataError, Position, ProgrammingError
from runnel.expressions.coercion import check_count, convert, operand_types, retype_parameters
from runnel.expressions.function import (
    Bound,
    Datum,
    Function,
    Kernel,
    always_may_fail,
    never_fails,
    over_first,
)
from runnel.expressions.kernels.buffers import pack_scalar
from runnel.expressions.nodes import Expression
from runnel.expressions.signature import named, signature
from runnel.sqltypes import BIGINT, INTEGER, Kind, common_type

_SIGNS = {
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "XOR",
    "bit_shift_left": "<<",
    "bit_shift_right": ">>",
    "bit_not": "~",
}
"""The operators, as errors name them."""


def _bind_bits(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    check_count(name, arguments, 1 if name == "bit_not" else 2, position)
    operands = retype_parameters(arguments)
    operands = [convert(item, BIGINT) if item.type.kind is Kind.NULL else item for item in operands]
    if not all(item.type.is_integer for item in operands):
        raise ProgrammingError(
            f"cannot apply '{_SIGNS[name]}' operator to {operand_types(operands)}",
            hint="CAST to BIGINT",
            position=position,
        )
    if "shift" in name:
        return (convert(operands[0], BIGINT), convert(operands[1], BIGINT)), BIGINT
    target = operands[0].type
    for item in operands[1:]:
        target = common_type(target, item.type) or target
    return tuple(convert(item, target) for item in operands), target


_ONE, _SIXTY_THREE, _SIXTY_FOUR = (pack_scalar(number, BIGINT) for number in (1, 63, 64))


def _shift(kernel: Kernel) -> Kernel:
    """A shift by at most 63 bits. Bits that leave a BIGINT on the left are lost, as in
    PostgreSQL.
    """

    def run(value: Datum, positions: Datum) -> Datum:
        outside = pc.or_(
            pc.less(positions, pack_scalar(0, BIGINT)), pc.greater_equal(positions, _SIXTY_FOUR)
        )
        if _is_true_of_any(outside):
            raise DataError("a shift must be by 0 to 63 bits")
        if _is_true_of_any(pc.equal(positions, _SIXTY_THREE)):
            # Arrow returns the number unchanged for a shift by 63, so it is done in two steps.
            half = pc.shift_right(positions, _ONE)
            return kernel(kernel(value, half), pc.subtract(positions, half))
        return kernel(value, positions)

    return run


def _is_true_of_any(test: Datum) -> bool:
    return bool(test.as_py() if isinstance(test, pa.Scalar) else pc.any(test).as_py())


_BITS: dict[str, tuple[Kernel, bool]] = {
    "bit_and": (pc.bit_wise_and, False),
    "bit_or": (pc.bit_wise_or, False),
    "bit_xor": (pc.bit_wise_xor, False),
    "bit_not": (pc.bit_wise_not, False),
    "bit_shift_left": (_shift(pc.shift_left), True),
    "bit_shift_right": (_shift(pc.shift_right), True),
}
"""The kernel of each function, and whether it can fail."""


def _bit_count(array: pa.Array) -> pa.Array:
    """The number of set bits of each value's eight bytes."""
    octets = np.ascontiguousarray(numbers(array, np.int64)).view(np.uint8).reshape(-1, 8)
    counts = np.unpackbits(octets, axis=1).sum(axis=1).astype(np.int32)
    return from_numbers(counts, pa.int32(), validity(array))


FUNCTIONS = (
    *(
        Function(
            name=name,
            arguments="x INTEGER" if name == "bit_not" else "x INTEGER, y INTEGER",
            result="the common type" if "shift" not in name else "BIGINT",
            bind=_bind_bits,
            compile=lambda call: _BITS[call.function][0],
            can_fail=always_may_fail if fails else never_fails,
            sql_names=("XOR",) if name == "bit_xor" else (),
            family="math",
        )
        for name, (_, fails) in _BITS.items()
    ),
    named(
        "bit_count",
        "x BIGINT",
        "INTEGER",
        signature(BIGINT, result=INTEGER),
        kernel=over_first(_bit_count),
        family="math",
    ),
)
