"""The root of a query: passes the rows to the reader."""

from __future__ import annotations

from runnel.dag import ProcessorFactory
from runnel.errors import internal
from runnel.processor import Inbox, Outbox, Processor, ProcessorContext, ResultTarget, Watermark


class ResultSink(Processor):
    """Puts each batch into the job's result queue.

    While the queue is full, the batches remain in the inbox; the queue wakes the processor when
    there is room. Runs at parallelism 1, so that rows keep their order.
    """

    _results: ResultTarget

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        if context.job.results is None:
            raise internal("a job without a result queue has a result sink")
        self._results = context.job.results

    def process(self, ordinal: int, inbox: Inbox) -> None:
        while (batch := inbox.peek()) is not None:
            if batch.num_rows and not self._results.offer(batch):
                return
            inbox.poll()

    def process_watermark(self, watermark: Watermark) -> bool:
        return True


def result_sink() -> ProcessorFactory:
    """Return a supplier of processors that write to `JobContext.results`."""
    return ResultSink
