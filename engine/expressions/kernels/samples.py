"""HASH, and sampling by hash: whether a row is in a sample depends on some of its values alone.

So two tables that have the same values in these columns have the same sample of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_flags
from runnel.columns.key_hash import hash_columns
from runnel.errors import Position, ProgrammingError, internal
from runnel.expressions.function import Bound, Datum, Function, Kernel, over_arrays
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.sqltypes import BIGINT, BOOLEAN


def in_sample(share: float, values: Sequence[Expression]) -> Call:
    """A condition that is true for that share (0 to 1) of all combinations of the values."""
    bound = Literal(value=min(round(share * (1 << 63)), (1 << 63) - 1), type=BIGINT)
    return Call(function="in_sample", arguments=(bound, *values), type=BOOLEAN)


def _compile(call: Call) -> Kernel:
    def run(bound: Datum, *values: Datum) -> Datum:
        # Compare the high bits, as partitioned edges route the rows of a sample by the low bits.
        # An input without rows has no first bound.
        return from_flags(
            hash_columns(values) >> np.uint64(1) < np.uint64(bound[0].as_py() if len(bound) else 0)
        )

    return over_arrays(run)


def _bind(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    raise internal("in_sample is not called by name")


def _bind_hash(name: str, arguments: Sequence[Expression], position: Position | None) -> Bound:
    if not arguments:
        raise ProgrammingError(
            "HASH expects at least 1 argument", hint="write HASH(x)", position=position
        )
    return tuple(arguments), BIGINT


def _compile_hash(call: Call) -> Kernel:
    def run(*values: Datum) -> Datum:
        # Without the lowest bit it is a BIGINT of 0 or more, and so is HASH(x) % n.
        return pa.array((hash_columns(values) >> np.uint64(1)).astype(np.int64))

    return over_arrays(run)


FUNCTIONS = (
    Function(
        "hash",
        "x ANY, …",
        "BIGINT, 0 or more",
        _bind_hash,
        _compile_hash,
        sql_names=("HASH",),
        family="comparison",
    ),
    Function("in_sample", "share, values", "BOOLEAN", _bind, _compile, family="comparison"),
)
