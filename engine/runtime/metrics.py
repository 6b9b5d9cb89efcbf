"""What a job and its vertices have done so far, as values."""

from __future__ import annotations

from runnel.frozen import frozen
from runnel.runtime.processor_tasklet import ProcessorTasklet


@frozen
class ProcessorMetrics:
    """One processor. `busy` is in nanoseconds; `bytes_out` is 0 where the job isn't measured; the queue is that of its
    inputs; `watermark` is the last that it was given; `held_by` names the upstream queue or edge that holds the watermark
    back."""

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


@frozen
class VertexMetrics:
    """One vertex, the sum over its processors; `queue_capacity` is 0 in a source. `watermark` is the smallest."""

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
    def watermark(self) -> int | None:
        return min((item.watermark for item in self.processors if item.watermark is not None), default=None)


def processor_metrics(tasklet: ProcessorTasklet) -> ProcessorMetrics:
    """Read while the tasklet runs: each number is right, all together need not be of one moment."""
    edges = tasklet.inputs.edges
    watermark = tasklet.watermark
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
        watermark=None if watermark is None else watermark.time,
        held_by=tasklet.inputs.holding(),
    )


def vertex_metrics(tasklets: list[ProcessorTasklet]) -> dict[str, VertexMetrics]:
    """By vertex, in topological order."""
    by_vertex: dict[str, list[ProcessorTasklet]] = {}
    for tasklet in tasklets:
        by_vertex.setdefault(tasklet.vertex, []).append(tasklet)
    return {
        vertex: VertexMetrics(
            vertex,
            tuple(processor_metrics(tasklet) for tasklet in members),
            sum(queue.capacity for tasklet in members for edge in tasklet.inputs.edges for queue in edge.queues),
        )
        for vertex, members in by_vertex.items()
    }
