"""Running a chain of operators within one call, each to its end before the next one begins.

A query over few rows in memory needs no tasklets, since nothing waits, and no queues, since each
operator reads all that the one before it emitted. The planner decides which plans are simple enough
(`planner/physical/direct.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.dag import ProcessorMetaSupplier, ProcessorSupplier, Vertex
from runnel.errors import internal
from runnel.processor import Item, JobContext, Processor, ProcessorContext
from runnel.processors.sources.scan import ScanMetaSupplier
from runnel.runtime.edges.queues import BatchInbox
from runnel.runtime.tasklets.failures import vertex_failure

if TYPE_CHECKING:
    from runnel.expressions.context import EvaluationContext
    from runnel.runtime.light_job import Jobs

_logger = logging.getLogger("runnel.job")


def run_directly(
    chain: Sequence[Vertex], jobs: Jobs, evaluation: EvaluationContext, accumulation_limit: int
) -> list[pa.RecordBatch]:
    """The rows that the last vertex of a chain emits. Each vertex reads the one before it. The
    error of a processor names its vertex, as the error of a job does.

    accumulation_limit: as in `JobOptions`.
    """
    jobs.check_open()
    job = JobContext(
        0,
        evaluation,
        jobs.clock.monotonic,
        accumulation_limit=accumulation_limit,
        kernel=jobs.kernel,
        memory=jobs.memory,
    )
    rows: list[pa.RecordBatch] | None = None
    for vertex in chain:
        try:
            rows = _emitted(vertex, job, rows)
        except (Exception, SystemExit) as error:
            failure = vertex_failure(error, vertex.name, False)
            raise failure from (error if failure is not error else error.__cause__)
    return rows or []


def _emitted(
    vertex: Vertex, job: JobContext, rows: list[pa.RecordBatch] | None
) -> list[pa.RecordBatch]:
    """The rows that the only processor of a vertex emits for its input; None: it has no input."""
    supplier = vertex.supplier
    if isinstance(supplier, ScanMetaSupplier):
        stored = supplier.stored_rows(job.evaluation)
        if stored is not None:
            return [stored] if stored.num_rows else []
    if isinstance(supplier, ProcessorMetaSupplier):
        (supplier,) = supplier.get(job, 1, 1)
    if not isinstance(supplier, ProcessorSupplier):
        return _run(supplier(), vertex, job, rows)
    failure: BaseException | None = None
    try:
        (processor,) = supplier.get(1)
        return _run(processor, vertex, job, rows)
    except BaseException as error:
        failure = error
        raise
    finally:
        supplier.close(failure)


def _run(
    processor: Processor, vertex: Vertex, job: JobContext, rows: list[pa.RecordBatch] | None
) -> list[pa.RecordBatch]:
    outbox = _Collecting()
    try:
        processor.init(
            outbox, ProcessorContext(job, vertex.name, 0, 1, _nothing, _nothing_at, _logger)
        )
        if rows is not None:
            inbox = BatchInbox(rows)
            while inbox and not processor.is_satisfied:
                processor.process(0, inbox)
            while not (processor.is_satisfied or processor.complete_edge(0)):
                continue
        while not processor.complete():
            continue
    finally:
        processor.close()
    return outbox.rows


class _Collecting:
    """An outbox that has room for everything."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] = []

    def offer(self, item: Item, ordinal: int = -1) -> bool:
        if ordinal > 0 or not isinstance(item, pa.RecordBatch):
            raise internal(f"{item!r} was offered to output {ordinal} of a chain")
        if item.num_rows:
            self.rows.append(item)
        return True

    def offer_snapshot(self, batch: pa.RecordBatch) -> bool:
        raise internal("a chain has no snapshots")


def _nothing() -> None:
    """A processor of a chain is called until it has ended; it need not be woken."""


def _nothing_at(time: int) -> None:
    """As `_nothing`."""
