"""A job over tables on Spark: one DataFrame that is written under a job group of its own."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, Thread
from time import monotonic_ns
from typing import Any

from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.jobs.sink import JobSink
from runnel.connectors.spark.session.session import Spark
from runnel.errors import Error, internal
from runnel.foreign.job_runtime import Commit, JobStart, RuntimeExecution, RuntimeProgress


class BatchExecution(RuntimeExecution):
    """Writes the only batch of a job, on a thread of its own."""

    def __init__(self, spark: Spark, start: JobStart, frame: Any, sink: JobSink) -> None:
        self._spark = spark
        self._start = start
        self._frame = frame
        self._sink = sink
        self._group = spark.name("job")
        self._is_asked = False
        self._lock = Lock()
        self._rows_in = 0
        self._is_over = False

    def begin(self) -> None:
        """Starts its thread."""
        Thread(target=self._run, name="runnel-spark-job", daemon=True).start()

    def progress(self) -> RuntimeProgress:
        if not self._is_over:
            self._count()
        return RuntimeProgress(self._rows_in, self._sink.rows, batches=self._sink.committed)

    def stop(self) -> None:
        """Cancels the job: its only batch is written again from the start."""
        self.cancel()

    def cancel(self) -> None:
        with self._lock:
            self._is_asked = True
        Thread(target=self._cancel, name="runnel-spark-cancel", daemon=True).start()

    def _cancel(self) -> None:
        self._sink.cancel()
        with suppress(Exception):  # the session may be gone, and its jobs with it
            self._spark.cancel(self._group)

    def _run(self) -> None:
        began = monotonic_ns()
        try:
            try:
                with spark_errors():
                    if not self._is_asked:
                        with self._spark.group(self._group, f"job {self._start.name}"):
                            self._sink.write(1, self._frame)
                        self._start.on_commit(Commit(1, monotonic_ns() - began))
                    else:
                        self.is_stopped = True
            finally:
                self._count()
                self._sink.close()
        except Exception as error:
            if self._is_asked and not self._sink.committed:
                self.is_stopped = True
            else:
                found = spark_error(error)
                self.error = (
                    found
                    if isinstance(found, Error)
                    else internal(f"{type(found).__name__}: {found}")
                )
        finally:
            self._is_over = True
            self._start.on_end()

    def _count(self) -> None:
        """Counts the rows that Spark's stages have read so far."""
        with suppress(Exception):  # a missing count is no reason to fail
            groups = [self._group] if self._sink.group is None else [self._group, self._sink.group]
            self._rows_in = max(self._rows_in, sum(map(self._spark.rows_read, groups)))
