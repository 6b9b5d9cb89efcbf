"""`Mapped`: a state over values that are computed from the arguments row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.errors import DataError, Position
from runnel.expressions.aggregates.states import (
    AggregateState,
    Column,
    Merge,
    Work,
    contiguous,
)

Values = Callable[[Sequence[pa.Array]], pa.Array]
Invalid = Callable[[Sequence[pa.Array]], Any]


@frozen
class Mapped(AggregateState):
    """A state over values that are computed from the arguments row by row.

    It has the columns, the speed and the inverse of `state`: Mapped(SumInteger(), …) is subtracted
    exactly if rows leave a frame or a window, and runs on streams. Choose small values: windows
    that overlap subtract only while the sums of all their panes fit in 64 bits (`Merge.ADD`). A sum
    of DOUBLEs has no inverse.

    state: the state over the values.
    values: computes the value of each row from the argument columns; NULL has no effect. It never
      raises: the value of an invalid row doesn't matter. It returns NULL for a NULL: under one,
      `numbers(column)` is arbitrary.
    invalid: flags the rows whose arguments are an error; not rows of NULL, which don't count.
    message: the text of the DataError for invalid rows.
    position: the position of the call, for the error.
    """

    state: AggregateState
    values: Values
    invalid: Invalid | None = None
    message: str = ""
    position: Position | None = field(default=None, compare=False, repr=False)

    def placed(self, position: Position | None) -> AggregateState:
        return replace(self, state=self.state.placed(position), position=position)

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.state.types

    @property
    def combined(self) -> AggregateState:
        return self.state.combined

    @property
    def merge(self) -> Merge | None:
        return self.state.merge

    @property
    def grows(self) -> bool:
        return self.state.grows

    def accumulate(self, arguments: Sequence[Column], num_rows: int) -> Work:
        columns = [contiguous(item) for item in arguments]
        if self.invalid is not None and self.invalid(columns).any():
            raise self.error()
        return self.state.accumulate([self.values(columns)], num_rows)

    def combine(self, columns: Sequence[pa.Array]) -> Work:
        return self.state.combine(columns)

    def export(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return self.state.export(columns)

    def error(self) -> DataError:
        """The error for invalid rows."""
        return DataError(self.message, position=self.position)
