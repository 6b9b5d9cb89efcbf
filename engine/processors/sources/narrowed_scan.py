"""Reading a fragment of another engine once it is known which of its rows a join wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier
from runnel.expressions.nodes import Expression
from runnel.processor import Inbox, JobContext, Processor
from runnel.processors.calc import Transform, compile_transform
from runnel.processors.joins.key_filter import WantedKeys
from runnel.processors.sources.scan import Scan
from runnel.processors.sources.scan_state import ScanShare

if TYPE_CHECKING:
    from runnel.foreign.fragment import FragmentSource, NarrowableRows

Keys = tuple[Expression, ...]
"""Expressions over the columns of a fragment."""


class NarrowedScan(Scan):
    """Takes the keys that come on its inputs to their end, then reads what they leave of the
    fragment's rows."""

    def __init__(
        self, share: ScanShare, transform: Transform, rows: NarrowableRows, keys: Sequence[Keys]
    ) -> None:
        super().__init__(share, transform, cooperative=True, slow=False)
        self._rows = rows
        self._wanted = [(item, WantedKeys([key.type for key in item])) for item in keys]
        self._is_split = False

    def process(self, ordinal: int, inbox: Inbox) -> None:
        batch = inbox.poll()
        if batch is not None:
            self._wanted[ordinal][1].add(batch)

    def complete(self) -> bool:
        if not self._is_split:
            self._is_split = True
            self._partitions = list(self._rows.partitions(self._wanted))
            self._begun = [False] * len(self._partitions)
        return super().complete()


class _Supplier(ProcessorSupplier):
    def __init__(self, processor: Processor) -> None:
        self._processor = processor

    def get(self, count: int) -> Sequence[Processor]:
        assert count == 1
        return [self._processor]


class NarrowedScanSupplier(ProcessorMetaSupplier):
    """Has the fragment prepared when the job starts: what it sees is fixed then."""

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
        return [_Supplier(NarrowedScan(share, self._transform, rows, self._keys))]


def narrowed_scan(
    source: FragmentSource, keys: Sequence[Keys], names: tuple[str, ...]
) -> NarrowedScanSupplier:
    """A supplier of one processor that gives the rows of a fragment, called by `names`, for which
    each of `keys` may be among the rows that come on the input of its number."""
    return NarrowedScanSupplier(source, keys, names)
