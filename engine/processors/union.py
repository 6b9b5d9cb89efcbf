"""UNION ALL: emits the batches of all inputs."""

from __future__ import annotations

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processor import Processor, StatelessProcessor


class UnionProcessor(StatelessProcessor):
    """Emits every batch of every input, with its columns renamed."""

    _names: list[str] | None = None

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self._names = None if names is None else list(names)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._names is None or batch.schema.names == self._names:
            return batch
        return batch.rename_columns(self._names)


def union(names: tuple[str, ...] | None = None) -> ProcessorFactory:
    """Return a supplier of processors that emit the batches of all inputs.

    names: the names of the result's columns; None: the names of each input.
    """

    def make() -> Processor:
        return UnionProcessor(names)

    return make
