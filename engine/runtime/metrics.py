"""The metrics of a job and its vertices so far, as values."""

from __future__ import annotations

from collections.abc import Iterator

from runnel.base.frozen import frozen
from runnel.processor import SourceWatermark, Watermark
from runnel.runtime.latency import LatencyHistogram, quantiles
from runnel.runtime.tasklets.processor_tasklet import ProcessorTasklet

_NONE = -(1 << 63)


@frozen
class ProcessorMetrics:
    """The metrics of one processor.

    index: number of the processor in its vertex.
    rows_in, rows_out, batches_in, batches_out: counts of its inputs and outputs.
    bytes_out: bytes of the outputs; 0 if the job does not measure them.
    calls: number of calls of its tasklet.
    busy: nanoseconds spent in calls.
    queued: number of items in the queues of its inputs.
    state: name of the tasklet's state.
    watermark: the last watermark that it received, or generated itself; None: none.
    held_by: the input, and the queue, that holds the watermark back, or of a processor that
        generates watermarks the partition; None: none.
    late_rows: rows that arrived after their result was emitted.
    malformed_records: records that a source skipped because they could not be parsed.
    skipped_rows: rows that a source skipped because its position had expired.
    tasks_done, tasks: completed and total tasks of another engine from which a source reads.
    state_rows, state_bytes: approximate size of its state.
    spilled_bytes: the part of `state_bytes` that is in files.
    latency: durations of the markers that arrived, for the last vertex.
    is_idle: whether all its inputs are idle, so that its watermark holds nothing back.
    """

    index: int
    rows_in: int
    rows_out: int
    batches_in: int
    batches_out: int
    bytes_out: int
    calls: int
    busy: int
    queued: int
    state: str
    watermark: int | None
    held_by: str | None
    late_rows: int = 0
    malformed_records: int = 0
    skipped_rows: int = 0
    tasks_done: int = 0
    tasks: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    spilled_bytes: int = 0
    latency: LatencyHistogram | None = None
    is_idle: bool = False


COUNTS = (
    "rows_in",
    "rows_out",
    "batches_in",
    "batches_out",
    "bytes_out",
    "calls",
    "busy",
    "queued",
    "late_rows",
    "malformed_records",
    "skipped_rows",
    "tasks_done",
    "tasks",
    "state_rows",
    "state_bytes",
    "spilled_bytes",
)
"""The metrics of a processor that are sums in its vertex."""

LATENCIES = {"latency_p50": 0.5, "latency_p99": 0.99, "latency_max": 1.0}
"""The quantiles of the latency by name."""


def metric_values(item: ProcessorMetrics) -> Iterator[tuple[str, int]]:
    """The metrics of a processor by name; the ones that it has."""
    for name in COUNTS:
        yield name, getattr(item, name)
    if item.watermark is not None:
        yield "watermark", item.watermark
    if item.latency is not None:
        values = quantiles([item.latency], LATENCIES.values())
        for name, value in zip(LATENCIES, values, strict=True):
            if value is not None:
                yield name, value


@frozen
class VertexMetrics:
    """The metrics of one vertex: sums over its processors.

    vertex: name of the vertex.
    processors: metrics of its processors.
    queue_capacity: capacity of all queues of its inputs; 0 for a source.

    `watermark` is the smallest of the processors that are not idle, or the largest if all are.
    """

    vertex: str
    processors: tuple[ProcessorMetrics, ...]
    queue_capacity: int

    @property
    def rows_in(self) -> int:
        return sum(item.rows_in for item in self.processors)

    @property
    def rows_out(self) -> int:
        return sum(item.rows_out for item in self.processors)

    @property
    def batches_in(self) -> int:
        return sum(item.batches_in for item in self.processors)

    @property
    def batches_out(self) -> int:
        return sum(item.batches_out for item in self.processors)

    @property
    def bytes_out(self) -> int:
        return sum(item.bytes_out for item in self.processors)

    @property
    def calls(self) -> int:
        return sum(item.calls for item in self.processors)

    @property
    def busy(self) -> int:
        return sum(item.busy for item in self.processors)

    @property
    def queued(self) -> int:
        return sum(item.queued for item in self.processors)

    @property
    def late_rows(self) -> int:
        return sum(item.late_rows for item in self.processors)

    @property
    def malformed_records(self) -> int:
        return sum(item.malformed_records for item in self.processors)

    @property
    def skipped_rows(self) -> int:
        return sum(item.skipped_rows for item in self.processors)

    @property
    def tasks_done(self) -> int:
        return sum(item.tasks_done for item in self.processors)

    @property
    def tasks(self) -> int:
        return sum(item.tasks for item in self.processors)

    @property
    def state_rows(self) -> int:
        return sum(item.state_rows for item in self.processors)

    @property
    def state_bytes(self) -> int:
        return sum(item.state_bytes for item in self.processors)

    @property
    def spilled_bytes(self) -> int:
        return sum(item.spilled_bytes for item in self.processors)

    @property
    def held_by(self) -> str | None:
        """The `held_by` of the processor with the smallest watermark."""
        with_holder = [item for item in self.processors if item.held_by is not None]
        return (
            min(
                with_holder, key=lambda item: _NONE if item.watermark is None else item.watermark
            ).held_by
            if with_holder
            else None
        )

    def latency(self, *shares: float) -> list[int | None]:
        """Quantiles of the time from the sources to this vertex, in nanoseconds; None if nothing
        was measured yet."""
        return quantiles(
            [item.latency for item in self.processors if item.latency is not None], shares
        )

    @property
    def watermark(self) -> int | None:
        known = [item for item in self.processors if item.watermark is not None]
        counting = [item.watermark for item in known if not item.is_idle]
        if counting:
            return min(time for time in counting if time is not None)
        return max((item.watermark for item in known if item.watermark is not None), default=None)


def processor_metrics(tasklet: ProcessorTasklet) -> ProcessorMetrics:
    """The metrics of a tasklet, read while it runs: each number is correct, but they may be of
    different points in time."""
    edges = tasklet.inputs.edges
    source = tasklet.source_watermark()
    watermark = tasklet.watermark
    state_rows, state_bytes, spilled_bytes = _state_size(tasklet)
    tasks_done, tasks = tasklet.tasks()
    counts = tasklet.counts()
    return ProcessorMetrics(
        index=tasklet.index,
        rows_in=sum(edge.rows for edge in edges),
        rows_out=tasklet.outbox.rows,
        batches_in=sum(edge.batches for edge in edges),
        batches_out=tasklet.outbox.batches,
        bytes_out=tasklet.outbox.bytes,
        calls=tasklet.calls,
        busy=tasklet.busy,
        queued=sum(len(queue) for edge in edges for queue in edge.queues),
        state=tasklet.state.name,
        watermark=_time(watermark, source),
        held_by=(
            tasklet.inputs.watermark_holder() if source is None else source.holder(tasklet.vertex)
        ),
        late_rows=counts.late_rows,
        malformed_records=counts.malformed_records,
        skipped_rows=counts.skipped_rows,
        tasks_done=tasks_done,
        tasks=tasks,
        state_rows=state_rows,
        state_bytes=state_bytes,
        spilled_bytes=spilled_bytes,
        latency=tasklet.latency,
        is_idle=tasklet.reported_idle if source is None else not source.is_waiting,
    )


def _time(received: Watermark | None, generated: SourceWatermark | None) -> int | None:
    if generated is not None:
        return generated.time
    return None if received is None else received.time


def _state_size(tasklet: ProcessorTasklet) -> tuple[int, int, int]:
    """Rows and bytes of the processor's state, and how many of the bytes are in files. It may be
    working, so the structures may change during the read."""
    try:
        return tasklet.state_size()
    except (RuntimeError, IndexError, KeyError, AttributeError):
        return 0, 0, 0


def vertex_metrics(tasklets: list[ProcessorTasklet]) -> dict[str, VertexMetrics]:
    """The metrics by vertex, in topological order."""
    by_vertex: dict[str, list[ProcessorTasklet]] = {}
    for tasklet in tasklets:
        by_vertex.setdefault(tasklet.vertex, []).append(tasklet)
    return {
        vertex: VertexMetrics(
            vertex,
            tuple(processor_metrics(tasklet) for tasklet in members),
            sum(
                queue.capacity
                for tasklet in members
                for edge in tasklet.inputs.edges
                for queue in edge.queues
            ),
        )
        for vertex, members in by_vertex.items()
    }
