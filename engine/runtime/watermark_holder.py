"""The watermark of a job, and the source that holds it back.

The walk starts at the processor with the smallest watermark, and follows against the stream the
input that holds the watermark back, until it meets a processor that generates watermarks. This
processor names its partition, also if no row ever came from it.

For example, an aggregation reads the exchanged rows of two scans. Input 0 has the watermark 90, and
nothing has arrived at input 1: the walk goes to the producer of input 1, the scan of `orders`,
which says that partition 3 has no rows yet.

Other threads run the processors meanwhile, so the answer may be of an instant that has passed.
"""

from __future__ import annotations

from collections.abc import Sequence

from runnel.runtime.tasklets.processor_tasklet import ProcessorTasklet

LEAST = -(1 << 63)


def job_watermark(tasklets: Sequence[ProcessorTasklet]) -> tuple[int | None, str | None]:
    """The smallest watermark of the processors that have not ended, and the source that holds it
    back; None if there is no watermark yet, or nothing holds it back."""
    for tasklet in tasklets:
        source = tasklet.source_watermark()
        if source is not None and source.is_waiting and source.time is None:
            return None, source.holder(tasklet.vertex)
    known = [item for item in tasklets if item.inputs.has_watermarks]
    waiting = [item for item in known if not item.is_closed and item.inputs.holder() is not None]
    if waiting:
        time, slowest = min(((_least(item), item) for item in waiting), key=_order)
        return None if time == LEAST else time, holder_of(slowest)
    # All inputs are idle or have ended, so that a processor may have a smaller one for good.
    by_vertex: dict[str, int] = {}
    for item in known:
        last = item.inputs.least_watermark()
        if last is not None:
            by_vertex[item.vertex] = max(last, by_vertex.get(item.vertex, last))
    return min(by_vertex.values(), default=None), None


def _least(tasklet: ProcessorTasklet) -> int:
    time = tasklet.inputs.least_watermark()
    return LEAST if time is None else time


def _order(pair: tuple[int, ProcessorTasklet]) -> int:
    return pair[0]


def holder_of(tasklet: ProcessorTasklet, column: int | None = None) -> str | None:
    """The source that holds back a watermark at the inputs of a processor, in words; None if
    nothing does.

    column: the number of the watermark; None: the smallest one.
    """
    source = tasklet.source_watermark()
    if source is not None:
        return source.holder(tasklet.vertex)
    if tasklet.is_closed:
        return None
    found = tasklet.inputs.holder(column)
    if found is None:
        return None
    edge, queue, number = found
    if queue is not None:
        producer = queue.producer
        assert isinstance(producer, ProcessorTasklet)
        return (
            holder_of(producer, edge.number_upstream(number))
            if _goes_on(producer)
            else producer.name
        )
    # Nothing came from the whole input.
    producers = [
        item.producer for item in tuple(edge.live) if isinstance(item.producer, ProcessorTasklet)
    ]
    for producer in filter(_goes_on, producers):
        name = holder_of(producer, edge.number_upstream(number))
        if name is not None:
            return name
    return f"{producers[0].name} (no watermark yet)" if producers else None


def _goes_on(tasklet: ProcessorTasklet) -> bool:
    """Whether the walk can say more than the name of this processor."""
    return bool(tasklet.inputs.edges) or tasklet.source_watermark() is not None
