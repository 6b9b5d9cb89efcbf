"""One run of a DAG: its processors, the tasklets that call them, the queues between them, and its
end.

An execution is identified by its job's id. It is created at each start of a job, so it does as
little as possible: everything that depends only on the DAG comes from the template. It does not
know which threads call the tasklets; they are the tasklets' owners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.dag import Epochs, ProcessorMetaSupplier, ProcessorSupplier, Vertex
from runnel.errors import Error, ErrorCode, OperationalError, internal
from runnel.processor import JobContext, Processor
from runnel.runtime.edges.inputs import InputEdge, Inputs
from runnel.runtime.edges.outbox import BaseOutbox, ResultOutbox, WatermarkOrder, make_outbox
from runnel.runtime.edges.queues import Queue
from runnel.runtime.tasklets.failures import cancelled, vertex_failure
from runnel.runtime.tasklets.processor_tasklet import ProcessorTasklet
from runnel.runtime.tasklets.tasklet import Tasklet
from runnel.runtime.template import UNBOUNDED, TaskletPlan, Template

if TYPE_CHECKING:
    from runnel.processors.sinks.result_queue import ResultQueue
    from runnel.runtime.epochs import EpochTicker
    from runnel.runtime.snapshots import SnapshotCoordinator


@frozen
class ExecutionOptions:
    """How an execution is created.

    parallelism: number of processors of a vertex without a parallelism of its own.
    is_hand_built: the user built the DAG, so a foreign exception is the user's.
    capacity: capacity of all bounded queues; None: as their edges specify.
    """

    parallelism: int = 1
    is_hand_built: bool = False
    capacity: int | None = None


class Execution:
    """Created from a template and the context of one job. Raises the error of a supplier, after
    releasing all resources.

    `on_end` is called once, by the thread that ended the last tasklet, when every processor and
    supplier is closed.
    """

    def __init__(
        self,
        template: Template,
        job: JobContext,
        options: ExecutionOptions,
        on_end: Callable[[Error | None], None],
        snapshots: SnapshotCoordinator | None = None,
    ) -> None:
        self.job = job
        self.clock = job.clock
        self.results: ResultQueue | None = job.results  # type: ignore[assignment]
        self.template = template
        self.snapshots = snapshots
        self.has_marks = job.is_unbounded
        self.is_cancelled = False
        self.error: Error | None = None
        self.tasklets: list[ProcessorTasklet] = []
        self.queues: list[Queue] = []
        self._options = options
        self._on_end = on_end
        self._lock = Lock()
        self._when_cancelled: list[Callable[[], object]] = []
        self._suppliers: list[tuple[str, ProcessorSupplier]] = []
        # A planned result sink would only pass rows on, so the vertex before it writes to the
        # results itself. (Not if snapshots are taken: a barrier must reach every vertex.)
        self.is_hand_built = options.is_hand_built
        is_plain = snapshots is None and self.results is not None and not options.is_hand_built
        skipped = template.result if is_plain else None
        processors: list[Sequence[Processor]] = []
        try:
            for number, vertex in enumerate(template.order):
                processors.append(() if number == skipped else self._processors(vertex))
            self._build(processors)
        except BaseException as error:
            self._close_after_failure(processors, error)
            raise
        self._left: set[Tasklet] = set(self.tasklets)
        self.epochs = None if template.epochs is None else self._ticker(template.epochs)
        if snapshots is not None:
            snapshots.begin_with(self)

    def _build(self, processors: list[Sequence[Processor]]) -> None:
        template = self.template
        layout = template.layout(tuple(map(len, processors)))
        capacity = self._options.capacity
        if capacity is None:
            self.queues = list(map(Queue, layout.capacities))
        else:
            self.queues = [
                Queue(size if size == UNBOUNDED else capacity) for size in layout.capacities
            ]
        for plan in layout.tasklets:
            name = template.order[plan.vertex].name
            peers = processors[plan.vertex]
            self.tasklets.append(self._tasklet(plan, name, peers[plan.index], len(peers)))

    def _ticker(self, epochs: Epochs) -> EpochTicker:
        # Loaded on first use: few queries have epochs.
        from runnel.runtime.epochs import EpochTicker

        return EpochTicker(epochs, self.clock, self.tasklets)

    def _processors(self, vertex: Vertex) -> Sequence[Processor]:
        """The processors of a vertex, from any kind of supplier."""
        supplier = vertex.supplier
        count = vertex.parallelism
        try:
            if isinstance(supplier, ProcessorMetaSupplier):
                if count is None:
                    preferred = supplier.preferred_parallelism(self.job)
                    most = self._options.parallelism
                    count = most if preferred is None else max(1, min(preferred, most))
                suppliers = supplier.get(self.job, 1, count)
                if len(suppliers) != 1:
                    raise internal(f"{len(suppliers)} suppliers instead of 1")
                supplier = suppliers[0]
            if count is None:
                count = self._options.parallelism
            if isinstance(supplier, ProcessorSupplier):
                self._suppliers.append((vertex.name, supplier))
                processors = supplier.get(count)
            else:
                processors = [supplier()] if count == 1 else [supplier() for _ in range(count)]
            if self._options.is_hand_built:
                _check(processors)
        except (Exception, SystemExit) as error:
            failure = vertex_failure(error, vertex.name, self._options.is_hand_built)
            raise failure from (error if failure is not error else error.__cause__)
        if len(processors) != count:
            raise internal(
                f'the supplier of vertex "{vertex.name}" returned {len(processors)} processors '
                f"instead of {count}"
            )
        return processors

    def _tasklet(
        self, plan: TaskletPlan, name: str, processor: Processor, parallelism: int
    ) -> ProcessorTasklet:
        queue_at = self.queues.__getitem__
        inputs = [
            InputEdge(i.ordinal, i.priority, list(map(queue_at, i.queues)), i.watermarks)
            for i in plan.inputs
        ]
        outbox: BaseOutbox
        if plan.gives_results:
            assert self.results is not None
            outbox = ResultOutbox(self.results)
        else:
            outbox = make_outbox(
                [(o.routing, o.partitioning, list(map(queue_at, o.queues))) for o in plan.outputs]
            )
        if self.is_hand_built:
            outbox.order = WatermarkOrder(name, len(plan.outputs))
        tasklet = ProcessorTasklet(
            self, processor, (name, plan.index, parallelism), Inputs(inputs, name), outbox
        )
        for edge in inputs:
            for queue in edge.queues:
                queue.consumer = tasklet
        for queue in outbox.queues:
            queue.producer = tasklet
        return tasklet

    @property
    def is_over(self) -> bool:
        """Whether every tasklet has ended."""
        return not self._left

    @property
    def left(self) -> list[Tasklet]:
        """The tasklets that have not ended."""
        with self._lock:
            return list(self._left)

    def fail(self, error: BaseException, vertex: str) -> None:
        """A processor failed: the first failure becomes the job's error, and all other processors
        are cancelled."""
        self.cancel(vertex_failure(error, vertex, self._options.is_hand_built))

    def cancel(self, error: Error | None = None) -> None:
        """Has every tasklet close its processor and end at its next call, which follows soon. From
        any thread."""
        with self._lock:
            if self.is_cancelled or not self._left:
                return
            self.error = cancelled() if error is None else error
            self.is_cancelled = True
        for call in tuple(self._when_cancelled):
            call()
        self.wake_all()

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Calls `call` when this is cancelled, on any thread, or at once if it already was."""
        self._when_cancelled.append(call)
        if self.is_cancelled:  # checked after adding it, so that `cancel` or this thread calls it
            call()

    def wake_all(self) -> None:
        for tasklet in self.tasklets:
            tasklet.wake()

    def wake_sinks(self) -> None:
        """There is room in the job's results."""
        for tasklet in self.tasklets:
            if not tasklet.outbox.queues:
                tasklet.wake()

    def tasklet_ended(self, tasklet: ProcessorTasklet) -> None:
        with self._lock:
            if tasklet not in self._left:
                return
            self._left.discard(tasklet)
            is_last = not self._left
        if self.snapshots is not None:
            self.snapshots.left(tasklet)
        if self.epochs is not None:
            self.epochs.left(tasklet)
        if is_last:
            self._finish()

    def _finish(self) -> None:
        for vertex, supplier in self._suppliers:
            try:
                supplier.close(self.error)
            except Exception as error:
                failure = vertex_failure(error, vertex, self._options.is_hand_built)
                self.error = self.error or failure
        self._suppliers.clear()
        self._on_end(self.error)

    def _close_after_failure(
        self, processors: list[Sequence[Processor]], error: BaseException
    ) -> None:
        """A supplier failed: closes everything created so far; only the first failure counts."""
        for processor in (item for made in processors for item in made):
            with suppress(Exception):
                processor.close()
        for _, supplier in self._suppliers:
            with suppress(Exception):
                supplier.close(error)

    def __repr__(self) -> str:
        return (
            f"<execution of job {self.job.job_id}, "
            f"{len(self._left)} of {len(self.tasklets)} tasklets left>"
        )


def _check(processors: Sequence[Processor]) -> None:
    """OperationalError if the supplier of a hand-built DAG returned anything but processors."""
    for item in processors:
        if not isinstance(item, Processor):
            raise OperationalError(
                f"a supplier returned a value of class {type(item).__name__}",
                code=ErrorCode.GENERIC,
                hint="a supplier returns instances of runnel.processor.Processor",
            )
