"""The rows of a DataFrame of Spark Connect as Arrow: the server sends the partitions in order."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from threading import Event, current_thread
from time import monotonic
from typing import Any

import pyarrow as pa

from runnel.connectors.spark.session.fetch import Fetch, FetchTask

CANCELLING_SECONDS = 30.0
PLANNING_SECONDS = 5.0


class RemoteFetch(Fetch):
    """One thread receives the batches.

    Memory on this side is bounded by the waiting batches: the thread stops, and so does the server.
    """

    _done = 0
    _known = 0

    def tasks(self) -> tuple[int, int]:
        return self._done, self._known

    def _lead(self) -> None:
        share = FetchTask()
        with self._changed:
            self._shares.append(share)
        with closing(self._batches()) as batches:
            for batch in batches:
                if batch.num_rows and not self._put(share, [batch]):
                    return  # closing makes the server drop the remaining batches
        with self._changed:
            share.is_done = True
        self._wake()

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        from pyspark.sql.connect.shell.progress import Progress

        client, plan = self._frame.sparkSession.client, self._frame._plan
        request = client._execute_plan_request_with_metadata()
        request.plan.CopyFrom(plan.to_proto(client))
        progress_handler: Any = self._progressed
        with Progress(handlers=[progress_handler], operation_id=request.operation_id) as progress:
            for item in client._execute_and_fetch_as_iterator(request, plan.observations, progress):
                if isinstance(item, pa.RecordBatch):
                    yield item

    def _progressed(self, stages: Iterable[Any], **more: object) -> None:
        stages = list(stages)
        self._known = max(self._known, sum(stage.num_tasks for stage in stages))
        self._done = max(self._done, sum(stage.num_completed_tasks for stage in stages))

    def _cancel(self) -> None:
        """Interrupts the query, repeatedly.

        An interrupt has no effect before the server has received the query, so it is repeated. An
        interrupt during planning ends the query, but not the jobs that it is about to start, so the
        first interrupt waits until tasks are known.
        """
        if current_thread() in self._threads:
            return  # the only thread, which has failed
        begun, pause = monotonic(), Event()
        while self._working and monotonic() < begun + CANCELLING_SECONDS:
            if not self._known and monotonic() < begun + PLANNING_SECONDS:
                pause.wait(0.05)
                continue
            with suppress(Exception):  # the session may be gone, and its queries with it
                self._spark.cancel(self._group)
            pause.wait(0.2)
