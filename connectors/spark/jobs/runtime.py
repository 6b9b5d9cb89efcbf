"""Named jobs that run entirely on Spark: bounded ones as the write of a DataFrame, streams as a
streaming query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runnel.catalog import Table
from runnel.connector import WriteMode
from runnel.connectors.spark.fragments.fragment import fragment_of
from runnel.connectors.spark.fragments.inputs import can_take
from runnel.connectors.spark.jobs.batch import BatchExecution
from runnel.connectors.spark.jobs.files import can_read, taken_over
from runnel.connectors.spark.jobs.sink import JobSink, guarantee_of
from runnel.connectors.spark.jobs.streaming import StreamPlan
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.table import SparkSinkTable, SparkTable
from runnel.connectors.spark.types import ddl
from runnel.foreign.fragment import Unrenderable
from runnel.foreign.job_runtime import JobRuntime, JobStart, JobWrite, RuntimeExecution, RuntimePlan
from runnel.processor import Guarantee
from runnel.relation.nodes import Relation, Scan, walk

RUNTIME = "spark"


class SparkJobs(JobRuntime):
    """The jobs of one connection that run on its Spark."""

    name = RUNTIME

    def __init__(self, owner: SessionOwner) -> None:
        self._owner = owner

    def has(self, table: Table) -> bool:
        return getattr(table, "owner", None) is self._owner

    def rows(self, tables: Sequence[Table]) -> int | None:
        self._owner.get()
        counts = [table.row_count() for table in tables]
        return None if None in counts else sum(count or 0 for count in counts)

    def takes(self, table: Table) -> bool:
        # The paths of a Spark Connect server are on another machine.
        return not self._owner.is_remote and can_read(table)

    def plan(self, write: JobWrite) -> RuntimePlan:
        self._check_sink(write)
        if not self._owner.is_remote:
            write = replace(write, relation=taken_over(write.relation, self._owner))
        for node in walk(write.relation):
            if isinstance(node, Scan) and not self.has(node.table) and not can_take(node.table):
                what = "a stream" if node.table.is_unbounded else "large, or of unknown size"
                raise Unrenderable(
                    f'"{node.table.name}", which is not on Spark and {what},', node.position
                )
        if write.relation.is_unbounded:
            return StreamPlan(self._owner, write)
        return BatchPlan(self._owner, write)

    def _check_sink(self, write: JobWrite) -> None:
        if write.mode not in (WriteMode.INSERT, WriteMode.SINK):
            raise Unrenderable(f"{write.mode.value.upper()} in a job")
        if isinstance(write.table, SparkSinkTable):
            for column in write.table.columns:
                ddl(column.type)  # refuses types that Spark does not have


_STATE_TEXT = "a query that ends"
"""The `state_text` of all bounded plans, since such a query starts again or has been written. It
is stored, so it never changes."""


class BatchPlan(RuntimePlan):
    """A bounded query."""

    def __init__(self, owner: SessionOwner, write: JobWrite) -> None:
        self._owner = owner
        self._write = write
        self._fragment = fragment_of(owner, write.relation)
        self.text = self._fragment.text
        self.state_text = _STATE_TEXT
        self.guarantee = guarantee_of(write.table)
        again = (
            "after a failure before the end it starts again"
            if self.guarantee is Guarantee.EXACTLY_ONCE
            else "rows may come twice"
        )
        self.notes = [
            *(f"{item}: read by Spark" for item in spark_tables(write.relation)),
            *filter(None, (self._fragment.reason, self._fragment.differs)),
            f"{write.table.name}: {self.guarantee}, {again}",
        ]

    def start(self, start: JobStart) -> RuntimeExecution:
        spark = self._owner.get()
        frame = self._fragment.frame(spark, start.evaluation)
        sink = JobSink(spark, self._write, start.owner, start.folder)
        execution = BatchExecution(spark, start, frame, sink)
        execution.begin()
        return execution

    def settle(self, owner: str, folder: Path) -> None:
        JobSink(self._owner.get(), self._write, owner, folder).close()


def spark_tables(relation: Relation) -> list[str]:
    """The names of Spark's tables in a plan, each once."""
    tables = (node.table for node in walk(relation) if isinstance(node, Scan))
    return list(dict.fromkeys(table.name for table in tables if isinstance(table, SparkTable)))
