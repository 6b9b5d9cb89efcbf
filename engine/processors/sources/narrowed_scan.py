"""Reads a fragment of another engine with a dynamic filter: the keys of the other join side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.connector import SourcePartition
from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier
from runnel.expressions.nodes import Expression
from runnel.processor import JobContext, Processor
from runnel.processors.calc import compile_transform
from runnel.processors.joins.key_filter import KeyFilter
from runnel.processors.sources.scan import ScanProcessor
from runnel.processors.sources.scan_state import ScanShare

if TYPE_CHECKING:
    from runnel.foreign.fragment import FragmentSource, NarrowableRows

Keys = tuple[Expression, ...]
"""Expressions over the columns of a fragment."""


class NarrowedPartitions:
    """Collects the keys of the filters, and has the fragment return the rows that pass them.

    The keys of filter number i arrive on input i.
    """

    def __init__(self, rows: NarrowableRows, keys: Sequence[Keys]) -> None:
        self._rows = rows
        self._filters = [(item, KeyFilter([key.type for key in item])) for item in keys]

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        self._filters[ordinal][1].add(batch)

    def partitions(self) -> Sequence[SourcePartition]:
        return self._rows.partitions(self._filters)


class _NarrowedScanSupplier(ProcessorSupplier):
    def __init__(self, processor: Processor) -> None:
        self._processor = processor

    def get(self, count: int) -> Sequence[Processor]:
        assert count == 1
        return [self._processor]


class NarrowedScanSupplier(ProcessorMetaSupplier):
    """Prepares the fragment when the job starts, which fixes the version of its data."""

    def __init__(
        self, source: FragmentSource, keys: Sequence[Keys], names: tuple[str, ...]
    ) -> None:
        self._source = source
        self._keys = keys
        self._transform = compile_transform(None, None, names)

    def preferred_parallelism(self, context: JobContext) -> int | None:
        return 1

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        share = ScanShare(self._source, context, {}, frozenset())
        rows = self._source.prepare(context)
        deferred = NarrowedPartitions(rows, self._keys)
        processor = ScanProcessor(share, self._transform, slow=False, deferred=deferred)
        return [_NarrowedScanSupplier(processor)]


def narrowed_scan(
    source: FragmentSource, keys: Sequence[Keys], names: tuple[str, ...]
) -> NarrowedScanSupplier:
    """Return a supplier of one processor that reads a fragment with dynamic filters.

    source: the fragment.
    keys: for each filter, expressions over the columns of the fragment. A row passes if their
        values may be among the rows that arrive on the input with the filter's number.
    names: the names of the result's columns.
    """
    return NarrowedScanSupplier(source, keys, names)
