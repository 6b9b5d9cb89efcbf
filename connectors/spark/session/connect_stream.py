"""The batches of a streaming query of Spark Connect, in this process.

With Spark Connect, the function for batches runs next to the server, in another process, so it
cannot pass data to this one. It publishes the batch's rows as a global temporary view and waits. A
thread of this process looks for that view, reads the batch through it, and then creates another
view that says "done" or "failed". So a batch ends there when it has ended here, and a batch that
fails here fails the query, as with a local session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from runnel.connectors.spark.session.session import Spark

RESPONSE_SECONDS = 60.0
"""How many seconds the remote function waits for a response before it fails, and with it the
query."""
LOOKING_SECONDS = 0.05
IDLE_SECONDS = 0.5
"""The interval in seconds of looking for a batch: at first, and if there was none for a while."""
STARTS = 4
SLOW_WORKER = "Python worker failed to connect back"
"""Part of the error if the server's worker for batches does not start within ten seconds, as may
happen on a busy machine."""

logger = logging.getLogger("runnel.spark")


class RemoteStream:
    """A streaming query with pyspark's interface, and a thread that receives its batches."""

    def __init__(self, spark: Spark, take: Callable[[Any, int], None]) -> None:
        self._spark = spark
        self._take = take
        self._key = f"runnel_batch_{uuid4().hex}"
        self._query: Any = None
        self._is_forgotten = False
        self._forgetting = Lock()
        self._over = Event()
        self._server = Thread(target=self._serve, name="runnel-spark-batches", daemon=True)

    def start(self, writer: Any) -> RemoteStream:
        """Starts the query and the thread."""
        writer = writer.foreachBatch(_offering(self._key, RESPONSE_SECONDS))
        for attempt in range(1, STARTS + 1):
            try:
                self._query = writer.start()
                break
            except Exception as error:
                if attempt == STARTS or SLOW_WORKER not in str(error):
                    raise
                logger.info("the worker for batches was too slow to start; retrying")
        self._spark.began(self)
        self._server.start()
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802 - pyspark's name
        """Whether the query runs."""
        return bool(self._query.isActive)

    @property
    def status(self) -> Any:
        """The status of the query."""
        return self._query.status

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - pyspark's name
        """The progress report of the query's last batch."""
        return self._query.lastProgress

    @property
    def recentProgress(self) -> Any:  # noqa: N802 - pyspark's name
        """The progress reports of the query's last batches."""
        return self._query.recentProgress

    def awaitTermination(self) -> None:  # noqa: N802 - pyspark's name
        """Waits for the end of the query and of the processing of its last batch; raises the
        reason of a failure."""
        try:
            self._query.awaitTermination()
        finally:
            self._over.set()
            with suppress(Exception):  # the server may be gone
                self._spark.cancel(self._key)
            self._server.join()
            self._forget()

    def close(self) -> None:
        """Receives no further batches, since the session is about to close. From any thread;
        does not wait."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """Stops the query, which then leaves nothing on the server, and waits up to `seconds`
        for the thread."""
        if not self._spark.is_gone:
            with suppress(Exception):  # it may have ended
                self._query.stop()
        self._server.join(max(seconds, 0))
        self._forget()

    def _forget(self) -> None:
        """Drops the views that the remote function has left: it is killed together with its
        query."""
        with self._forgetting:
            if not self._is_forgotten and not self._spark.is_gone:
                with suppress(Exception):  # the server may have ended just now
                    catalog = self._spark.own.catalog
                    names = catalog.listTables(self._spark.global_views, f"{self._key}*")  # type: ignore[attr-defined]
                    for item in names:
                        catalog.dropGlobalTempView(item.name)
            self._is_forgotten = True
        self._spark.ended(self)

    def stop(self) -> None:
        """Ends the query."""
        self._over.set()
        self._query.stop()

    def _serve(self) -> None:
        last, pause = -1, LOOKING_SECONDS
        while not self._over.wait(pause):
            number = self._offered()
            if number is None or number == last:
                pause = min(pause * 1.1, IDLE_SECONDS)
                continue
            last, pause = number, LOOKING_SECONDS
            if not self._has_taken(number):
                self._answer("failed")
                return  # the query fails, too
            self._answer("done")

    def _offered(self) -> int | None:
        """The number of the waiting batch; None if there is none."""
        with suppress(Exception):  # `awaitTermination` reports a failure of the query
            tables = self._spark.own.catalog.listTables(self._spark.global_views, f"{self._key}*")  # type: ignore[attr-defined]
            numbers = [
                item.name.rpartition("_")[2] for item in tables if item.name.startswith(self._key)
            ]
            return next((int(number) for number in numbers if number.isdigit()), None)
        return None

    def _has_taken(self, number: int) -> bool:
        ended = Event()
        Thread(target=self._live, args=(ended,), name="runnel-spark-alive", daemon=True).start()
        try:
            frame = self._spark.own.table(f"{self._spark.global_views}.{self._key}_{number}")  # type: ignore[attr-defined]
            with self._spark.group(self._key, "a batch"):
                self._take(frame, number)
        except Exception as error:
            logger.debug("batch %d failed: %s", number, error)  # `_take` stores the reason
            return False
        finally:
            ended.set()
        return True

    def _live(self, ended: Event) -> None:
        while not ended.wait(RESPONSE_SECONDS / 6):
            self._answer("alive")

    def _answer(self, what: str) -> None:
        with suppress(Exception):
            self._spark.own.range(0).createOrReplaceGlobalTempView(f"{self._key}_{what}")


def _offering(key: str, timeout: float) -> Callable[[Any, int], None]:
    """The function for batches. It runs where Runnel may not be installed, so it does not refer
    to it."""

    def offer(rows: Any, number: int) -> None:
        import time

        catalog = rows.sparkSession.catalog
        name = f"{key}_{number}"
        rows.createOrReplaceGlobalTempView(name)
        try:
            until, pause = time.monotonic() + timeout, 0.01
            while not catalog.dropGlobalTempView(f"{key}_done"):
                if catalog.dropGlobalTempView(f"{key}_failed"):
                    raise RuntimeError("the batch failed in the process that reads it")
                if catalog.dropGlobalTempView(f"{key}_alive"):
                    until = time.monotonic() + timeout
                if time.monotonic() > until:
                    raise RuntimeError("no process reads the rows of the batch any longer")
                time.sleep(pause)
                pause = min(pause * 1.3, 0.1)
        finally:
            catalog.dropGlobalTempView(name)

    return offer
