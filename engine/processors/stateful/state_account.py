"""Limits the memory of a processor's state: state that exceeds the limit is spilled to files.
The option 'maxStateBytes' limits the state of all processors of an execution together.

A StateAccount is a part that a processor owns and passes to EmittingProcessor.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from runnel.errors import ErrorCode, OperationalError
from runnel.processor import ProcessorContext
from runnel.storage.memory_budget import LEAST_SHARE, Reservation, state_too_large

ACCOUNTED_ROWS = 4_096
"""Minimum number of rows between two computations of the state's size.

The cost of the computation grows with the number of batches in the state.
"""

LARGE_BATCH = 256
"""The state's size is also computed after each batch of more than 1/LARGE_BATCH of the limit."""


class SpillableState(Protocol):
    """The processor whose state is accounted for."""

    context: ProcessorContext

    @property
    def is_producing(self) -> bool:
        """Whether results are being produced, which may refer to state that would be spilled."""

    def state_size(self) -> tuple[int, int]: ...
    def spilled_size(self) -> tuple[int, int]: ...

    def spill(self) -> None:
        """Spill state to files, as much as possible. Does nothing if the state cannot spill."""


class StateAccount:
    """Compares the size of a processor's state in memory with the limit of the connection.

    If the state is too large, the processor's `spill` is called. State that still exceeds the limit
    is an OperationalError.

    processor: the processor that has the state.
    name: the name of the state in errors, in the plural.
    weight: factor by which the size of the state is multiplied for the working memory; greater than
        1 only if the state can be spilled.
    """

    __slots__ = (
        "_accounted_at",
        "_is_overdue",
        "_name",
        "_processor",
        "_unaccounted",
        "_weight",
        "reservation",
    )

    def __init__(self, processor: SpillableState, name: str, weight: int = 1) -> None:
        self.reservation = Reservation(None)
        self._processor = processor
        self._name = name
        self._weight = weight
        self._unaccounted = 0
        self._is_overdue = False
        self._accounted_at = ACCOUNTED_ROWS

    def init(self, context: ProcessorContext) -> None:
        """Must be called when the processor is initialised."""
        self.reservation = Reservation(context.job.memory, self._weight)

    def settle(self) -> None:
        """Compute the size of the state if that was postponed because of results in production."""
        if self._is_overdue:
            self._compute()

    def check(self) -> None:
        """Compute the size of the state: it has changed by more than the rows of `add`."""
        if self.reservation.is_limited or self._processor.context.job.state_limit:
            self._compute()

    def add(self, batch: pa.RecordBatch) -> None:
        """Must be called when rows were added to the state, also when a snapshot is restored."""
        self._unaccounted += batch.num_rows
        if self._unaccounted >= self._accounted_at or self._is_large(batch):
            self._compute()

    def _is_large(self, batch: pa.RecordBatch) -> bool:
        if not self.reservation.is_limited:
            return False
        size: int = batch.get_total_buffer_size()
        return size * LARGE_BATCH > self.reservation.memory.limit

    def _compute(self) -> None:
        """Report the size of the state, and spill if all operators together exceed the limit.

        Raises OperationalError if spilling isn't enough.
        """
        self._unaccounted = 0
        self._check_state_limit()
        if not self.reservation.is_limited:
            return
        self._is_overdue = self._processor.is_producing
        if self._is_overdue:
            return
        rows, size = self._report()
        if self.reservation.must_spill:
            self._processor.spill()
            rows, size = self._report()
        self._accounted_at = max(ACCOUNTED_ROWS, rows // 8)
        memory = self.reservation.memory
        used = memory.used - size * (self._weight - 1)
        if used > memory.limit and size * LEAST_SHARE >= memory.limit:
            vertex = self._processor.context.vertex
            raise state_too_large(self._name, vertex, (rows, size), (used, memory.limit))

    def _check_state_limit(self) -> None:
        context = self._processor.context
        job = context.job
        if not job.state_limit:
            return
        job.state_bytes[context.vertex, context.index] = self._processor.state_size()[1]
        sizes = job.state_bytes.copy()  # other processors change it meanwhile
        total = sum(sizes.values())
        if total > job.state_limit:
            largest = max(sizes, key=lambda key: sizes[key])
            raise OperationalError(
                f"the state of {_quoted(job.name)} is larger than maxStateBytes, "
                f"{job.state_limit:,} bytes",
                code=ErrorCode.GENERIC,
                detail=f'vertex "{largest[0]}" holds {sizes[largest]:,} bytes of {total:,}',
                hint=(
                    "raise the option 'maxStateBytes'; or reduce the state of the query: fewer "
                    "keys and columns, earlier filters, windows (EXPLAIN (STATE) shows the state)"
                ),
            )

    def _report(self) -> tuple[int, int]:
        """Report the size of the state in memory, and return its rows and bytes."""
        rows, size = self._processor.state_size()
        spilled_rows, spilled_size = self._processor.spilled_size()
        self.reservation.set(size - spilled_size)
        return rows - spilled_rows, size - spilled_size

    def close(self) -> None:
        self.reservation.release()


def _quoted(name: str) -> str:
    return f'"{name}"' if name else "the query"
