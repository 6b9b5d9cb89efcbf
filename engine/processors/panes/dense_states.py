"""States of many groups as plain numbers, one place per group, where combining two of them is one
operation on arrays.

That is so for counts, for sums that are known to fit 64 bits (what is added up is looked at; sums
that might not fit are somebody else's business), for sums of DOUBLE, and for the least and the
greatest of what numpy compares as we do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.columns.batches import Mask, Numbers, from_numbers, numbers, validity
from runnel.errors import Position
from runnel.expressions.aggregates.states import (
    AggregateState,
    Count,
    Extreme,
    SumDecimal,
    SumDouble,
    SumInteger,
)

_WIDTHS: dict[int, Any] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOATS: dict[pa.DataType, Any] = {pa.float32(): np.float32, pa.float64(): np.float64}


@frozen
class DenseState:
    """How a state is kept. `type` is the Arrow type of its column, `dtype` that of its numbers;
    `operation` is the numpy function that combines two of them, and `identity` what changes nothing
    there. `deducts`: whether a part can be taken off again. `nullable`: whether NULL, which means
    "no rows yet", is told apart from the identity.
    `position`: where the call of a sum of DOUBLEs stands."""

    type: pa.DataType
    dtype: Any
    operation: np.ufunc
    identity: Any
    deducts: bool = False
    nullable: bool = True
    position: Position | None = None

    @property
    def is_exact_sum(self) -> bool:
        """Whether its numbers may outgrow 64 bits."""
        return self.deducts and self.nullable

    @property
    def is_double_sum(self) -> bool:
        """Whether its numbers are rounded and may become infinite."""
        return self.operation is np.add and self.dtype is np.float64

    def read(self, column: pa.Array) -> tuple[Numbers, Mask | None] | None:
        """The numbers of a column, the identity under NULL, and which are not NULL (None: all);
        None where they don't fit."""
        values = self._numbers(column)
        if values is None:
            return None
        valid = validity(column)
        if valid is not None:
            values = np.where(valid, values, self.dtype(self.identity))
        return values, valid if self.nullable else None

    def _numbers(self, column: pa.Array) -> Numbers | None:
        if not pa.types.is_decimal(column.type):
            plain = (
                column
                if column.type.bit_width == self.type.bit_width
                else pc.cast(column, self.type)
            )
            return numbers(plain, self.dtype)
        words = numbers(column, np.dtype((np.int64, column.type.bit_width // 64)))
        low = words[:, 0]
        valid = validity(column)
        fits = words[:, 1:] == (low >> 63)[:, None]
        if not (fits.all() if valid is None else fits[valid].all()):
            return None
        return np.ascontiguousarray(low)

    def column(self, values: Numbers, valid: Mask | None) -> pa.Array:
        """The column of numbers."""
        if not pa.types.is_decimal(self.type):
            return from_numbers(values, self.type, valid)
        words = np.empty((len(values), self.type.bit_width // 64), np.int64)
        words[:, 0] = values
        words[:, 1:] = (values >> 63)[:, None]
        return from_numbers(words, self.type, valid)


def dense_state(state: AggregateState) -> DenseState | None:
    """How a state is kept as numbers; None if it can't be."""
    state = state.combined
    if isinstance(state, Count):
        return DenseState(pa.int64(), np.int64, np.add, 0, deducts=True, nullable=False)
    if isinstance(state, SumInteger):
        return DenseState(pa.int64(), np.int64, np.add, 0, deducts=True)
    if isinstance(state, SumDecimal):
        return DenseState(state.types[0], np.int64, np.add, 0, deducts=True)
    if isinstance(state, SumDouble):
        return DenseState(pa.float64(), np.float64, np.add, 0.0, position=state.position)
    return _extreme(state) if isinstance(state, Extreme) else None


def _extreme(state: Extreme) -> DenseState | None:
    kind, is_least = state.type, state.function == "min"
    if kind in _FLOATS:
        # NaN is the largest: the maximum of numpy is NaN where one of the two is, and its fmin
        # where both are.
        if is_least:
            return DenseState(kind, _FLOATS[kind], np.fmin, np.nan)
        return DenseState(kind, _FLOATS[kind], np.maximum, -np.inf)
    if pa.types.is_decimal(kind):
        dtype: Any = np.int64
    elif pa.types.is_signed_integer(kind) or (
        pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    ):
        dtype = _WIDTHS[kind.bit_width]
    else:
        return None
    limits = np.iinfo(dtype)
    if is_least:
        return DenseState(kind, dtype, np.minimum, limits.max)
    return DenseState(kind, dtype, np.maximum, limits.min)
