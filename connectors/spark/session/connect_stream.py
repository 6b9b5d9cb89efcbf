"""The batches of a streaming query of Spark Connect, in this process.

There a function for batches runs beside the server, in another process, so it can't hand anything
to us. What it can do is to name the batch's rows for all sessions of the server, and to wait: it is
this function's name that we look for, query under that name what we want of the batch, and leave
another name behind that says that we are done, or have failed. So a batch ends there when it has
ended here, and a batch that fails here fails the query, as with a session of this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from runnel.connectors.spark.session.session import Spark

PATIENCE = 60.0
"""Seconds without a sign of life of ours after which the function there gives up, and with it the
query."""
LOOKING_SECONDS = 0.05
IDLE_SECONDS = 0.5
"""How often to look for a batch: at first, and when there was none for a while."""
STARTS = 4
SLOW_WORKER = "Python worker failed to connect back"
"""The server gives the worker for batches ten seconds to start, which may not do where the machine
is busy."""

logger = logging.getLogger("runnel.spark")


class RemoteStream:
    """A streaming query, as pyspark has it, with a thread that takes its batches."""

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
        writer = writer.foreachBatch(_offering(self._key, PATIENCE))
        for attempt in range(1, STARTS + 1):
            try:
                self._query = writer.start()
                break
            except Exception as error:
                if attempt == STARTS or SLOW_WORKER not in str(error):
                    raise
                logger.info("the worker for batches was too slow to start, which is tried again")
        self._spark.began(self)
        self._server.start()
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802 - pyspark's name
        """Whether the query runs."""
        return bool(self._query.isActive)

    @property
    def status(self) -> Any:
        """What the query does."""
        return self._query.status

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - pyspark's name
        """What the query tells of its last batch."""
        return self._query.lastProgress

    @property
    def recentProgress(self) -> Any:  # noqa: N802 - pyspark's name
        """What the query tells of its last batches."""
        return self._query.recentProgress

    def awaitTermination(self) -> None:  # noqa: N802 - pyspark's name
        """Waits for the end of the query, and of what we do with its last batch; raises why it
        failed."""
        try:
            self._query.awaitTermination()
        finally:
            self._over.set()
            with suppress(Exception):  # the server may be gone
                self._spark.cancel(self._key)
            self._server.join()
            self._forget()

    def close(self) -> None:
        """Takes no more batches, as the session is about to go. From any thread; waits for
        nothing."""
        self._over.set()

    def join(self, seconds: float) -> None:
        """Has the query end, which leaves nothing on the server then, and waits so long for us."""
        if not self._spark.is_gone:
            with suppress(Exception):  # it may have ended
                self._query.stop()
        self._server.join(max(seconds, 0))
        self._forget()

    def _forget(self) -> None:
        """Takes back the names that the function there has left behind, which is ended with its
        query wherever it is."""
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
                return  # and with it the query
            self._answer("done")

    def _offered(self) -> int | None:
        """The number of the batch that waits."""
        with suppress(
            Exception
        ):  # if it is the query that has failed, whoever waits for its end is told so
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
            logger.debug("batch %d failed: %s", number, error)  # whoever takes it keeps why
            return False
        finally:
            ended.set()
        return True

    def _live(self, ended: Event) -> None:
        while not ended.wait(PATIENCE / 6):
            self._answer("alive")

    def _answer(self, what: str) -> None:
        with suppress(Exception):
            self._spark.own.range(0).createOrReplaceGlobalTempView(f"{self._key}_{what}")


def _offering(key: str, patience: float) -> Callable[[Any, int], None]:
    """The function for batches. It runs where Runnel needn't be installed, so it refers to nothing
    of it."""

    def offer(rows: Any, number: int) -> None:
        import time

        catalog = rows.sparkSession.catalog
        name = f"{key}_{number}"
        rows.createOrReplaceGlobalTempView(name)
        try:
            until, pause = time.monotonic() + patience, 0.01
            while not catalog.dropGlobalTempView(f"{key}_done"):
                if catalog.dropGlobalTempView(f"{key}_failed"):
                    raise RuntimeError("the batch failed where its rows were taken")
                if catalog.dropGlobalTempView(f"{key}_alive"):
                    until = time.monotonic() + patience
                if time.monotonic() > until:
                    raise RuntimeError("nobody takes the rows of the batch any more")
                time.sleep(pause)
                pause = min(pause * 1.3, 0.1)
        finally:
            catalog.dropGlobalTempView(name)

    return offer
