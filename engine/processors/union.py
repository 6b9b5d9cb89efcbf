"""UNION ALL: all inputs passed through."""

from __future__ import annotations

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processor import Processor, StatelessProcessor


class Union(StatelessProcessor):
    """Passes on every batch of every input, under the column names of the first."""

    _names: list[str] | None = None

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self._names = None if names is None else list(names)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._names is None or batch.schema.names == self._names:
            return batch
        return batch.rename_columns(self._names)


def union(names: tuple[str, ...] | None = None) -> ProcessorFactory:
    """A supplier of processors that pass all inputs through, their columns called by `names` where
    given."""

    def make() -> Processor:
        return Union(names)

    return make
