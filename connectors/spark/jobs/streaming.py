"""A job over streams on Spark: one streaming query, whose batches Runnel commits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic_ns
from typing import Any

from runnel.catalog import Table
from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.fragments.differences import warnings_of
from runnel.connectors.spark.fragments.fragment import bound_rendering
from runnel.connectors.spark.fragments.inputs import check_columns, rows_of
from runnel.connectors.spark.jobs.replay import BATCH_STOPPED_FILTER, BatchStopped, read_input
from runnel.connectors.spark.jobs.sink import JobSink, guarantee_of, written_batch
from runnel.connectors.spark.jobs.state_text import state_text, without_messages
from runnel.connectors.spark.session.functions import python_calls, register
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import CHECKPOINT_ELSEWHERE, Spark
from runnel.connectors.spark.source import Views
from runnel.connectors.spark.stream import SparkStreamTable
from runnel.connectors.spark.table import SparkTable
from runnel.connectors.spark.types import quoted
from runnel.deadline import current
from runnel.errors import DataError, Error, ErrorCode, OperationalError, internal
from runnel.expressions.context import EvaluationContext
from runnel.expressions.evaluate import is_volatile
from runnel.foreign.fragment import Unrenderable
from runnel.foreign.job_runtime import (
    Commit,
    JobStart,
    JobWrite,
    ReadInput,
    RuntimeExecution,
    RuntimePlan,
    RuntimeProgress,
)
from runnel.processor import JobContext
from runnel.relation.nodes import Relation, Scan, walk
from runnel.relation.streams import ImposeOrder
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.rendering.spark.streams import render_stream
from runnel.sqltypes import Kind

CHECKPOINT = "checkpoint"


class StreamPlan(RuntimePlan):
    """An unbounded query."""

    def __init__(self, owner: SessionOwner, write: JobWrite) -> None:
        self._owner = owner
        self._write = write
        relation = write.relation
        for node in walk(relation):
            for expression in node.own_expressions:
                if is_volatile(expression):
                    raise Unrenderable("a volatile function", expression.position)
            if (
                isinstance(node, Scan)
                and not node.table.is_unbounded
                and node.table.refresh_millis is not None
            ):
                raise Unrenderable(
                    f'"{node.table.name}", which is to be read again at intervals,', node.position
                )
        python_calls(relation)
        self.text = render_stream(relation, Rendering(SPARK), _preview, _preview_order)
        self.state_text = state_text(relation, _preview, _preview_order)
        self.guarantee = guarantee_of(write.table)
        self.notes = _notes(relation, write.table)

    def has_state_of(self, state_text: str) -> bool:
        return without_messages(state_text) == without_messages(self.state_text)

    def start(self, start: JobStart) -> RuntimeExecution:
        _check_checkpoint(start)
        spark = self._owner.get()
        execution = StreamExecution(
            spark, start, JobSink(spark, self._write, start.owner, start.folder)
        )
        try:
            with ExitStack() as stack:
                views = stack.enter_context(Views(spark))
                frame = self._frame(spark, start.evaluation, views, stack)
                execution.begin(frame)
        except BaseException:
            execution.give_up()
            raise
        return execution

    def settle(self, owner: str, folder: Path) -> None:
        JobSink(self._owner.get(), self._write, owner, folder).close()

    def read_input(self, folder: Path) -> ReadInput | None:
        return read_input(self._write.relation, folder / CHECKPOINT, written_batch(folder))

    def _frame(
        self, spark: Spark, evaluation: EvaluationContext, views: Views, stack: ExitStack
    ) -> Any:
        """The streaming DataFrame; the views that its text names are needed until the query has
        started."""
        register(spark, python_calls(self._write.relation))
        context = JobContext(0, evaluation, monotonic_ns)

        def named(frame: Any) -> str:
            name = spark.view(frame)
            stack.callback(spark.drop_view, name)
            return name

        def scan(node: Scan, read: tuple[int, ...]) -> str:
            table = node.table
            if isinstance(table, SparkStreamTable):
                view = named(table.own_frame(spark))
            elif isinstance(table, SparkTable):
                view = views.name(table)
            else:
                view = views.moved(
                    rows_of(node, read, context), [table.columns[i].type for i in read]
                )
                return (
                    f"(SELECT {', '.join(f'c{place}' for place in range(len(read)))} FROM {view})"
                )
            return (
                f"(SELECT {', '.join(f'`c{i}` AS c{place}' for place, i in enumerate(read))} "
                f"FROM {view})"
            )

        def order(node: ImposeOrder, text: str) -> str:
            frame = spark.frame(text)
            column = f"c{node.time}"
            with spark_errors():
                if node.fields[node.time].type.kind is Kind.TIMESTAMP:
                    names = [
                        f"CAST({name} AS TIMESTAMP) AS {name}" if name == column else name
                        for name in frame.columns
                    ]
                    frame = frame.selectExpr(*names)
                # Spark's watermarks are whole milliseconds: a fraction would be truncated, and rows
                # lost as late.
                return named(frame.withWatermark(column, f"{-(-node.lag // 1000)} milliseconds"))

        return spark.frame(
            render_stream(self._write.relation, bound_rendering(evaluation), scan, order)
        )


class StreamExecution(RuntimeExecution):
    """One run of the streaming query, from its checkpoint on."""

    def __init__(self, spark: Spark, start: JobStart, sink: JobSink) -> None:
        self._spark = spark
        self._start = start
        self._sink = sink
        self._query: Any = None
        self._is_asked = self._is_cancelled = False
        self._is_over = False
        self._failure: Error | None = None
        self._lock = Lock()
        self._turn = Lock()
        """Held while a batch is written."""
        self._last_progress: tuple[Any, ...] = ()
        self._progress = RuntimeProgress()
        self._began = Event()

    def begin(self, frame: Any) -> None:
        """Starts the query."""
        logging.getLogger("py4j.clientserver").addFilter(BATCH_STOPPED_FILTER)
        place = self._start.folder / CHECKPOINT
        with spark_errors():
            writer = frame.writeStream.outputMode("append").queryName(f"job {self._start.owner}")
            writer = writer.option("checkpointLocation", self._spark.checkpoint(place))
            writer = writer.trigger(processingTime=f"{self._start.interval} milliseconds")
            self._query = self._spark.start_stream(writer, self._take)
        self._began.set()
        Thread(target=self._watch, name="runnel-spark-job", daemon=True).start()

    def give_up(self) -> None:
        """Cleans up after a failed start."""
        self._is_asked = True
        self._stop_query()
        self._sink.close()

    def progress(self) -> RuntimeProgress:
        if not self._is_over:
            self._look()
        return self._progress

    def stop(self) -> None:
        with self._lock:
            if self._is_asked:
                return
            self._is_asked = True
        Thread(target=self._stop_between, name="runnel-spark-stop", daemon=True).start()

    def cancel(self) -> None:
        self._is_asked = self._is_cancelled = True
        self._sink.cancel()
        Thread(target=self._stop_query, name="runnel-spark-stop", daemon=True).start()

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        deadline = current()
        while not self._turn.acquire(timeout=0.1):
            deadline.check()
            deadline.check_time()
        try:
            yield
        finally:
            self._turn.release()

    def _take(self, frame: Any, number: int) -> None:
        """Called by Spark with each batch, on a thread of its own; numbers are from 0 on."""
        with self._turn:
            if self._is_asked:
                raise BatchStopped  # the next run starts with this batch
            self._write(frame, number)

    def _write(self, frame: Any, number: int) -> None:
        self._look()
        began = monotonic_ns()
        try:
            if number < self._sink.committed:
                # Written by an execution that ended before Spark recorded it: Spark still needs the
                # batch's state and watermark.
                frame.write.format("noop").mode("append").save()
                has_rows = True
            else:
                has_rows = self._sink.write(number + 1, frame)
        except Exception as error:
            # Spark's own report is about the callback.
            if self._failure is None and not self._is_cancelled:
                found = spark_error(error)
                self._failure = (
                    found
                    if isinstance(found, Error)
                    else internal(f"{type(found).__name__}: {found}")
                )
            raise BatchStopped from None
        progress = self._progress
        if has_rows:
            self._start.on_commit(
                Commit(
                    number + 1, monotonic_ns() - began, progress.state_rows, progress.state_bytes
                )
            )

    def _watch(self) -> None:
        try:
            self._query.awaitTermination()
            if not self._is_asked and self._failure is None:
                self._failure = OperationalError(
                    f'the streaming query of job "{self._start.name}" was stopped from elsewhere',
                    code=ErrorCode.CONNECTION_PROBLEM,
                    hint="it is started again from its checkpoint",
                )
        except Exception as error:
            if self._failure is None and not self._is_asked:
                found = spark_error(error)
                self._failure = (
                    found
                    if isinstance(found, Error)
                    else internal(f"{type(found).__name__}: {found}")
                )
        finally:
            self._look()
            self._is_over = True
            self.error = self._failure
            self.is_stopped = self._failure is None
            with suppress(Exception):
                self._sink.close()
            self._start.on_end()

    def _stop_between(self) -> None:
        """Stops the query between two batches: a batch that starts in the meantime is refused."""
        with suppress(Exception):
            pause = Event()
            while self._query.isActive and self._query.status["isTriggerActive"]:
                pause.wait(0.02)
        self._stop_query()

    def _stop_query(self) -> None:
        # The session may be gone, or the query has failed, which the watching thread reports.
        with suppress(Exception):
            if self._query is not None:
                self._query.stop()

    def _look(self) -> None:
        """Reads Spark's progress reports of its batches, each once."""
        try:
            query = self._query
            last = None if query is None else query.lastProgress
            if last is None or _key(last) == self._last_progress:
                return
            with self._lock:
                # Several may be new: after the last batch Spark also reports idle times.
                for found in query.recentProgress:
                    if _key(found) > self._last_progress:
                        self._last_progress = _key(found)
                        before, self._progress = self._progress, self._added(found)
                        self._check_time(self._progress.late_rows - before.late_rows)
        except Exception:  # missing counts are no reason to fail
            return

    def _check_time(self, late: int) -> None:
        """Ends the query if rows were late before there was a watermark. Under the lock."""
        # Spark's watermark starts at 1970, and earlier rows are silently dropped.
        if late and self._progress.watermark is None and self._failure is None:
            self._failure = DataError(
                f"{late} rows with event times before 1970 were left out: "
                "Spark's watermark begins there",
                hint="let the job run here: OPTIONS ('runtime' = 'tasklets')",
            )
            Thread(target=self._stop_query, name="runnel-spark-stop", daemon=True).start()

    def _added(self, found: Any) -> RuntimeProgress:
        before, states = self._progress, found.stateOperators
        return RuntimeProgress(
            rows_in=before.rows_in + found.numInputRows,
            rows_out=self._sink.rows,
            late_rows=before.late_rows + sum(item.numRowsDroppedByWatermark for item in states),
            batches=before.batches
            + ("addBatch" in found.durationMs),  # Spark reports idle times, too
            rows_per_second=found.processedRowsPerSecond,
            watermark=_microseconds(dict(found.eventTime).get("watermark")),
            state_rows=sum(item.numRowsTotal for item in states),
            state_bytes=sum(item.memoryUsedBytes for item in states),
        )


def _key(progress: Any) -> tuple[Any, ...]:
    """A key that increases from one progress report to the next."""
    return progress.batchId, progress.timestamp


def _check_checkpoint(start: JobStart) -> None:
    """OperationalError if Spark's checkpoint lacks batches that were written.

    Spark would use their numbers again, and rows of new batches would be skipped as repetitions.
    """
    checkpoint, written = start.folder / CHECKPOINT, written_batch(start.folder)
    if (checkpoint / CHECKPOINT_ELSEWHERE).exists():
        return  # the server of Spark Connect stores the checkpoint
    numbers = (int(item.name) for item in (checkpoint / "offsets").glob("*") if item.name.isdigit())
    begun = max(numbers, default=-1) + 1
    if begun < written:
        raise OperationalError(
            f'job "{start.name}" can\'t resume: its checkpoint is gone, '
            "or is older than the batches that were written",
            code=ErrorCode.GENERIC,
            detail=f"batch {written} was written, and {checkpoint} ends with batch {begun}",
            hint=(
                "restore the folder, or DROP JOB and create it again, which starts from the "
                "beginning"
            ),
        )


def _microseconds(text: str | None) -> int | None:
    if text is None or text.startswith("1970-01-01T00:00:00"):  # there is none yet
        return None
    time = datetime.fromisoformat(text).astimezone(UTC)
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _preview(node: Scan, read: tuple[int, ...]) -> str:
    table = node.table
    if isinstance(table, SparkStreamTable | SparkTable):
        table.check_readable(read)
    else:
        check_columns(node, read)
    columns = ", ".join(
        f"{quoted(table.columns[i].name)} AS c{place}" for place, i in enumerate(read)
    )
    return f"(SELECT {columns} FROM {quoted(table.name)})"


def _preview_order(node: ImposeOrder, text: str) -> str:
    return f"({text} WATERMARK c{node.time} - {node.lag} MICROSECONDS)"


def _notes(relation: Relation, sink: Table) -> Sequence[str]:
    tables = list(dict.fromkeys(node.table for node in walk(relation) if isinstance(node, Scan)))
    lines = []
    for table in tables:
        if table.is_unbounded:
            lines.append(f"{table.name}: read on by Spark from its checkpoint")
        elif isinstance(table, SparkTable):
            lines.append(f"{table.name}: read by Spark")
        else:
            lines.append(
                f"{table.name}: its {table.row_count()} rows go to Spark when the job starts; "
                "later changes aren't seen"
            )
    return [*lines, f"{sink.name}: {guarantee_of(sink)}", *warnings_of(relation)]  # type: ignore[arg-type]
