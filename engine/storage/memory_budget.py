"""The memory budget that the operators of one connection share, and their spill files.

An operator with buffered rows reports the number of their bytes (`Reservation`), and asks whether
it should spill them (`must_spill`). It should when all operators together hold more than their
share of the limit. The rest of the limit is for working memory and for batches in queues. An
operator that holds very little isn't asked to spill, so that it makes progress even if other
operators hold the rest and can't spill at the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.errors import ErrorCode, OperationalError

if TYPE_CHECKING:
    from runnel.storage.spill import SpillFile

OPERATOR_SHARE = 0.4
"""The fraction of the limit that operators may hold as buffered rows and state."""

LEAST_SHARE = 16
"""An operator isn't asked to spill while it holds less than 1/LEAST_SHARE of the allowed bytes."""

LEAST_BYTES = 1 << 16
"""An operator isn't asked to spill while it holds less than this, if that much is allowed."""

SMALL_BYTES = 1 << 16
"""Up to this number of bytes, the size of the buffers counts as the size of a batch."""


class Memory:
    """The memory budget of one connection. Safe for threads.

    limit: maximum number of bytes; 0: no limit.
    directory: the folder of spill files; None: the temporary folder of the system.
    owned: whether `directory` is created when it is needed.
    is_shared: returns whether DuckDB runs next to the operators; it then gets half of the limit.
    spilled_bytes: the number of bytes that were written to spill files.
    """

    def __init__(
        self,
        limit: int = 0,
        directory: str | None = None,
        is_shared: Callable[[], bool] = lambda: False,
    ) -> None:
        self.limit = limit
        self.directory = directory
        self.owned = False
        self._is_shared = is_shared
        self._lock = Lock()
        self._used = 0
        self.spilled_bytes = 0

    @property
    def used(self) -> int:
        """The number of bytes that the operators report to hold."""
        return self._used

    @property
    def allowed(self) -> int:
        """The number of bytes that the operators may hold."""
        limit = self.limit // 2 if self._is_shared() else self.limit
        return int(limit * OPERATOR_SHARE)

    def reserve(self, change: int) -> None:
        """Add `change` bytes, which may be negative, to the memory in use."""
        with self._lock:
            self._used += change

    def spilled(self, count: int) -> None:
        """Count `count` bytes as written to a spill file."""
        with self._lock:
            self.spilled_bytes += count

    def file(self) -> SpillFile:
        """Make a file for spilled rows."""
        # Imported on first use: few queries need it.
        from runnel.storage.spill import SpillFile

        return SpillFile(self)

    def mapped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Copy the rows to a file, and return a batch that reads them from there."""
        from runnel.storage.spill import mapped

        return mapped(batch, self)


class Reservation:
    """The bytes that one operator holds.

    memory: the budget of the connection; None: no limit, and no folder to spill to.
    weight: factor by which the reported bytes are multiplied, for an operator that needs more
        working memory than usual for the rows that it holds.
    bytes: the bytes in the budget at present, multiplied by the weight.
    """

    __slots__ = ("_memory", "_weight", "bytes")

    def __init__(self, memory: Memory | None, weight: int = 1) -> None:
        self._memory = memory
        self._weight = weight
        self.bytes = 0

    @property
    def is_limited(self) -> bool:
        return self._memory is not None and self._memory.limit > 0

    @property
    def memory(self) -> Memory:
        assert self._memory is not None
        return self._memory

    def is_trifle(self, count: int) -> bool:
        """Whether `count` bytes are too few to report, as in most light jobs.

        False if the operator has reported bytes before.
        """
        if self.bytes or count > SMALL_BYTES:
            return False
        return (
            self._memory is None
            or not self._memory.limit
            or count * self._weight * LEAST_SHARE < self._memory.limit
        )

    def set(self, count: int) -> None:
        """Report that the operator holds `count` bytes now."""
        count *= self._weight
        if self._memory is not None and count != self.bytes:
            self._memory.reserve(count - self.bytes)
            self.bytes = count

    def release(self) -> None:
        """Report that the operator holds nothing."""
        self.set(0)

    @property
    def must_spill(self) -> bool:
        """Whether the operator should spill the rows that it holds."""
        if self._memory is None or not self._memory.limit:
            return False
        allowed = self._memory.allowed
        return self._memory.used > allowed and self.bytes >= max(
            min(LEAST_BYTES, allowed), allowed // LEAST_SHARE
        )


def size_of(data: pa.RecordBatch | pa.Array | pa.ChunkedArray) -> int:
    """Return about how many bytes a batch or column occupies.

    Computing the share of a slice in its buffers (`nbytes`) costs 30 µs and more, which is too much
    for small buffers. For these the result is the size of the buffers.
    """
    buffers = int(data.get_total_buffer_size())
    return buffers if buffers <= SMALL_BYTES else int(data.nbytes)


def too_large(what: str, memory: Memory) -> OperationalError:
    """Return the error of rows that must be in memory together but exceed the limit.

    what: the subject of the message, in the plural.
    """
    return OperationalError(
        f"{what} need more than the memory_limit of {memory.limit:,} bytes",
        hint="raise memory_limit: SET memory_limit = '4GB'",
    )


def state_too_large(
    what: str, vertex: str, state: tuple[int, int], memory: tuple[int, int]
) -> OperationalError:
    """Return the error of a streaming operator whose state must be in memory but exceeds the limit.

    what: the subject of the message, in the plural.
    vertex: the name of the operator's vertex.
    state: the number of rows and of bytes of the operator's state.
    memory: the number of bytes that all operators use, and the limit.
    """
    rows, size = state
    used, limit = memory
    others = used - size
    return OperationalError(
        f"{what} need more than the memory_limit of {limit:,} bytes",
        code=ErrorCode.OUT_OF_MEMORY,
        detail=f'vertex "{vertex}" holds {rows:,} rows in {size:,} bytes'
        + (f"; other operators hold {others:,}" if others > 0 else ""),
        hint=(
            "reduce the state of the query with narrower time bounds, smaller windows, "
            "fewer columns or keys (EXPLAIN (STATE) shows the state and how long it is retained); "
            "or raise memory_limit: SET memory_limit = '4GB'"
        ),
    )


def default_limit() -> int:
    """Return 60% of the memory that this process may use; 0 if that is unknown.

    That is the memory of the machine, or the limit of the process's control group if it is lower.
    """
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return int(min(found) * 0.6) if found else 0
