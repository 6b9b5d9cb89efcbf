"""An open partition of a source, and when to read it next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from runnel.connector import End, EventTimeMark, Pause, SourcePartition

FAR_FUTURE = 1 << 62
"""The due time of a partition that is read only after it has woken its reader."""

ReadItem: TypeAlias = "pa.RecordBatch | EventTimeMark | Pause | End"
"""An item that a partition returns."""


class OpenPartition:
    """An open partition, and when to read it next.

    number: the number of the partition in its processor.
    due: the time of the next read, in monotonic nanoseconds; 0: now; FAR_FUTURE: after the
        partition has woken its reader.
    resting: the earliest time of the next read after a wake-up.
    """

    def __init__(self, number: int, partition: SourcePartition, wake: Callable[[], None]) -> None:
        self.number = number
        self.partition = partition
        self._wake_processor = wake
        self.due = 0
        self.resting = 0
        partition.open(self._wake)

    def read(self) -> ReadItem:
        # Set before the read, so that a wake-up during the read isn't lost.
        self.due = FAR_FUTURE
        item = self.partition.read()
        if isinstance(item, Pause):
            if item.until is not None:
                self.due = min(self.due, item.until)
        else:
            self.due = self.resting
        return item

    def rest(self, until: int) -> None:
        """Don't read before the time `until`, so that more rows may arrive."""
        self.resting = self.due = until

    def _wake(self) -> None:
        if self.resting and self.due == self.resting:
            # The processor reads at that time anyway, or now if that time has passed.
            return
        self.due = self.resting
        self._wake_processor()
