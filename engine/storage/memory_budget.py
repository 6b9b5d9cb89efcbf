"""The memory that the operators of one connection may hold together, and the files they put the
rest in.

An operator that keeps rows says how many bytes it holds (`Reservation`), and is told when it should
let go of them (`must_spill`). That is when all operators together hold more than their share of the
limit, of which the rest is for what they need while they work on what they hold, and for batches on
their way. One that holds next to nothing goes on, so that it gets anywhere when others, which can't
let go just now, hold the rest.
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

HELD_SHARE = 0.4
"""Which part of the limit operators may hold at rest."""

LEAST_SHARE = 16
"""An operator isn't asked to spill while it holds less than this part (one in so many) of what all
may hold."""

LEAST_BYTES = 1 << 16
SMALL_BYTES = 1 << 16
"""What the buffers of a batch hold at most for their size to be taken for that of the batch."""


class Memory:
    """The budget of one connection. Safe for threads. A `limit` of 0 is none; `directory` None is
    the system's, and one that is `owned` is made when it is needed; `is_shared` says whether DuckDB
    runs beside the operators, and has half of the limit."""

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
        """How many bytes the operators say they hold."""
        return self._used

    @property
    def allowed(self) -> int:
        """How many bytes they may hold."""
        limit = self.limit // 2 if self._is_shared() else self.limit
        return int(limit * HELD_SHARE)

    def reserve(self, change: int) -> None:
        with self._lock:
            self._used += change

    def spilled(self, count: int) -> None:
        """So many bytes were written to a file."""
        with self._lock:
            self.spilled_bytes += count

    def file(self) -> SpillFile:
        """A new file for rows that are let go."""
        # Loaded on first use: few queries need it.
        from runnel.storage.spill import SpillFile

        return SpillFile(self)

    def mapped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows in a file."""
        from runnel.storage.spill import mapped

        return mapped(batch, self)


class Reservation:
    """What one operator holds. `memory` None: without a limit, and without a place to spill to.
    `weight`: how many times what it holds it needs while it works on it, beyond the usual."""

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
        """Whether so many bytes needn't be told: next to nothing, as light jobs hold. None were
        told before."""
        if self.bytes or count > SMALL_BYTES:
            return False
        return (
            self._memory is None
            or not self._memory.limit
            or count * self._weight * LEAST_SHARE < self._memory.limit
        )

    def set(self, count: int) -> None:
        """The operator holds so many bytes now."""
        count *= self._weight
        if self._memory is not None and count != self.bytes:
            self._memory.reserve(count - self.bytes)
            self.bytes = count

    def release(self) -> None:
        self.set(0)

    @property
    def must_spill(self) -> bool:
        """Whether the operator should let go of what it holds."""
        if self._memory is None or not self._memory.limit:
            return False
        allowed = self._memory.allowed
        return self._memory.used > allowed and self.bytes >= max(
            min(LEAST_BYTES, allowed), allowed // LEAST_SHARE
        )


def size_of(data: pa.RecordBatch | pa.Array | pa.ChunkedArray) -> int:
    """About how many bytes a batch or column takes. To count what a part of larger buffers takes
    costs 30 µs and more, which is too much where the buffers are small anyway."""
    buffers = int(data.get_total_buffer_size())
    return buffers if buffers <= SMALL_BYTES else int(data.nbytes)


def too_large(what: str, memory: Memory) -> OperationalError:
    """Of rows that must be in memory together, and for which there is no room."""
    return OperationalError(
        f"{what} need more than the memory_limit of {memory.limit:,} bytes",
        hint="raise memory_limit: SET memory_limit = '4GB'",
    )


def state_too_large(
    what: str, vertex: str, state: tuple[int, int], memory: tuple[int, int]
) -> OperationalError:
    """Of what an operator on a stream keeps, with its rows and bytes, for which there is no room:
    it must be in memory.
    `memory`: what is used of it by all, and its limit."""
    rows, size = state
    used, limit = memory
    others = used - size
    return OperationalError(
        f"{what} need more than the memory_limit of {limit:,} bytes",
        code=ErrorCode.OUT_OF_MEMORY,
        detail=f'vertex "{vertex}" keeps {rows:,} rows in {size:,} bytes'
        + (f"; others hold {others:,}" if others > 0 else ""),
        hint=(
            "let the query keep less, with narrower bounds of time, smaller windows, "
            "fewer columns or keys (EXPLAIN (STATE) "
            "tells what it keeps, and until when); or raise memory_limit: SET memory_limit = '4GB'"
        ),
    )


def default_limit() -> int:
    """Six tenths of what this process may use: of the machine's memory, or of its control
    group's."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            found.append(int(Path(path).read_text()))
    return int(min(found) * 0.6) if found else 0
