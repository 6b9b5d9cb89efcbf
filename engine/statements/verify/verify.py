"""VERIFY JOB: reads a job's input again, as a bounded query, and compares the result with the sink.

The comparison is for a snapshot, or for a batch of another engine: the sources are read up to the
positions in it, and the sink is read as it was after the commit of it. Rows that later input might
still change are left out on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from runnel.catalog import Table
from runnel.connector import ReadableTable, Token, WriteMode
from runnel.errors import ErrorCode, NotSupportedError, OperationalError, as_written
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import Column
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.named_job import NamedJob
from runnel.planner.parse.jobs import VerifyJob
from runnel.planner.parse.syntax import option_values
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import QueryPlan, WritePlan
from runnel.planner.verify.comparison import Compared, plan_comparison
from runnel.planner.verify.final_rows import (
    BoundedRows,
    before,
    check_repeatable,
    gives_at_once,
    with_time,
)
from runnel.planner.verify.replay import position_vertices, replayed
from runnel.planner.verify.sample import sampled
from runnel.processor import Guarantee, JobContext
from runnel.processors.sources.scan_state import SavedPartition
from runnel.relation.nodes import (
    Aggregate,
    Field,
    Filter,
    Project,
    Relation,
    Scan,
    references,
    walk,
)
from runnel.relation.over import Window
from runnel.results.rows import Result, Row
from runnel.runtime.light_job import JobStatus
from runnel.sqltypes import BIGINT, VARCHAR, Kind, SqlType
from runnel.statements.call import StatementCall
from runnel.statements.jobs.jobs import job_of, planned_job
from runnel.statements.queries import parallelism
from runnel.statements.verify.options import Sample, read_sample
from runnel.statements.verify.replay import ReplayedTable, WrittenTable, check_retained
from runnel.statements.verify.verified_snapshot import VerifiedSnapshot, snapshot_of

if TYPE_CHECKING:
    from runnel.session.session import Session

SHOWN = 20
"""Maximum number of differing rows that are shown."""

_FIELDS = (
    Field("result", VARCHAR),
    Field("rows", BIGINT),
    Field("row", VARCHAR),
    Field("note", VARCHAR),
)


def verify_job(session: Session, statement: VerifyJob, call: StatementCall) -> Result:
    """Compares the rows that a job has written with the result of a bounded query over its
    input."""
    job = job_of(session, statement.name.text, statement.name.position)
    sample = read_sample(option_values(statement.options))
    write, evaluation = planned_job(session, job.record)
    keys = _keys(write)
    _check(job, write, keys)
    context = JobContext(0, evaluation, session.light_jobs.clock.monotonic)
    instant, written = snapshot_of(session, job, write, context, call)
    try:
        comparison = _Comparison(job, write, instant, written, sample)
        compared = comparison.plan(session, evaluation)
        return _reported_rows(comparison, _run(session, compared, evaluation, call))
    except OperationalError as error:
        if error.code is not ErrorCode.POSITION_EXPIRED:
            raise
        raise OperationalError(
            f'job "{job.name}" can\'t be verified: its input no longer exists',
            code=ErrorCode.POSITION_EXPIRED,
            detail=error.message if error.detail is None else f"{error.message} ({error.detail})",
            hint=(
                "a job can be verified while its sources have all rows since it began: retain "
                "more, or create the job again"
            ),
        ) from error
    finally:
        written.close()
        instant.close()


def _guarantee(job: NamedJob) -> str:
    """The guarantee of the rows that a job writes."""
    record = job.record
    return str(record.options.guarantee) if record.runtime == TASKLETS else record.guarantee


def _keys(write: WritePlan) -> tuple[int, ...]:
    """The indexes of the key in the written columns, if a later row replaces an earlier one with
    the same key."""
    if write.mode is not WriteMode.SINK:
        return ()
    return tuple(write.columns.index(key) for key in write.table.key_columns)


def _check(job: NamedJob, write: WritePlan, keys: tuple[int, ...]) -> None:
    """Raises if the job can't be verified, or not in its status."""
    record, name = job.record, job.name
    if write.mode is WriteMode.CHANGES:
        raise NotSupportedError(
            f'job "{name}" can\'t be verified: its result changes',
            detail="a later row replaces and deletes earlier ones",
            hint="compare the table with the job's query over a table of the same rows",
        )
    if write.mode is WriteMode.SINK and not keys and getattr(write.table, "has_key", False):
        raise NotSupportedError(
            f'job "{name}" can\'t be verified: what SINK INTO "{write.table.name}" replaces isn\'t '
            "known",
            detail="its key is DuckDB's",
            hint="INSERT INTO a table, or SINK INTO an IMap",
        )
    if record.may_drop_state or record.options.initial_snapshot is not None:
        raise NotSupportedError(
            f'job "{name}" can\'t be verified: it began with the state of another query',
            detail="so its rows are not the result of its query over its input",
            hint="CREATE a job for the query without a snapshot, and VERIFY that",
        )
    check_repeatable(write.logical, bool(keys))
    for table in write.tables:
        if (
            record.runtime == TASKLETS or not table.is_unbounded
        ):  # else the other engine reads it again
            check_retained(table, name)
    if job.status is JobStatus.COMPLETED:
        return
    guarantee = _guarantee(job)
    what = None
    if not record.is_unbounded:
        what = "its inputs have not ended", "VERIFY it when it has ended: con.job(…).join() waits"
    elif job.status is JobStatus.RUNNING and guarantee != str(Guarantee.EXACTLY_ONCE):
        what = (
            f"its guarantee is {guarantee}, so its sink never corresponds to its sources",
            f"ALTER JOB {as_written(name)} SUSPEND first",
        )
    if what is not None:
        raise OperationalError(
            f'job "{name}" can\'t be verified now',
            code=ErrorCode.GENERIC,
            detail=what[0],
            hint=what[1],
        )


class _Comparison:
    """The comparison of a job's sink with its input."""

    def __init__(
        self,
        job: NamedJob,
        write: WritePlan,
        instant: VerifiedSnapshot,
        written: WrittenTable,
        sample: Sample | None,
    ) -> None:
        self.job = job
        self.write = write
        self.keys = _keys(write)
        self.sample = sample
        self.sampled_by: tuple[int, ...] = ()
        self.instant = instant
        self.written = written
        self.compared = Compared(count=len(write.columns))
        relation = write.logical
        self.is_final = instant.name is None or gives_at_once(relation)
        self.timed: BoundedRows | None = with_time(relation) if relation.is_unbounded else None

    @property
    def limit(self) -> int | None:
        """The event time before which rows are final; None: no watermark has arrived."""
        assert self.timed is not None
        watermark = self.instant.watermark(self.timed.bound.watermark)
        return None if watermark is None else watermark + self.timed.bound.offset

    def plan(self, session: Session, evaluation: EvaluationContext) -> QueryPlan:
        """The plan of the comparison."""
        expected, actual = self._sides()
        parameters = self.write.parameters
        environment = session.planning_environment(evaluation.zone)
        return plan_comparison(self.compared, expected, actual, environment, parameters)

    def _sides(self) -> tuple[Relation, Relation]:
        """The expected rows, and the rows of the sink."""
        width, timed = len(self.write.columns), self.timed
        rows = self.write.logical if timed is None else timed.relation
        rows = replayed(rows, self._table_of(), self.instant.counted)
        actual: Relation = Scan(table=self.written, columns=tuple(range(width)))
        columns = list(references(rows.fields)[:width])
        is_ordered = may_lack = False
        if timed is not None:
            happened = Column(index=width, name="happened", type=rows.fields[width].type)
            is_ordered = bool(self.keys) and timed.completes
            if not self.is_final:
                may_lack = bool(self.keys) and not timed.completes
                rows, actual = self._final(rows, actual, happened)
            columns += [happened] if is_ordered else []
            columns += [self._is_before(happened)] if may_lack else []
        elif not self.is_final:
            raise self._unknown()
        if self.sample is not None:
            self.sampled_by = self.sample.columns(self.written.columns, self.keys, rows)
            rows, actual = (
                sampled(side, self.sampled_by, self.sample.share) for side in (rows, actual)
            )
        kinds = [self.write.table.columns[i].type for i in self.write.columns]
        self.compared = Compared(
            count=width,
            loose=self._loose(),
            coarse=tuple(i for i, kind in enumerate(kinds) if kind.kind is Kind.REAL),
            unsorted=tuple(i for i, kind in enumerate(kinds) if kind.is_nested),
            keys=self.keys,
            is_ordered=is_ordered,
            may_lack=may_lack,
        )
        names = tuple(f"c{i}" for i in range(len(columns)))
        return Project(input=rows, expressions=tuple(columns), names=names), actual

    def _final(
        self, rows: Relation, actual: Relation, happened: Column
    ) -> tuple[Relation, Relation]:
        """Both sides without rows that may yet change."""
        timed = self.timed
        assert timed is not None
        if self.keys and timed.completes:
            return Filter(input=rows, condition=self._is_before(happened)), actual
        if timed.index is None:
            if not timed.completes:
                raise self._unknown()
            return Filter(input=rows, condition=self._is_before(happened)), actual
        if self.keys and not _gives_early(self.write.logical):
            return rows, actual  # a column says which rows must exist
        if self.keys and timed.index not in self.keys:
            raise self._unknown()
        there = references(actual.fields)[timed.index]
        return (
            Filter(input=rows, condition=self._is_before(happened)),
            Filter(input=actual, condition=self._is_before(there)),
        )

    def _is_before(self, column: Column) -> Any:
        limit = self.limit
        return before(column, -(1 << 62) if limit is None else limit)

    def _unknown(self) -> NotSupportedError:
        return NotSupportedError(
            f'job "{self.job.name}" can be verified only when it has ended',
            detail="no column of its result says by its event time which rows are final",
            hint="write a column such as window_end too",
        )

    def _loose(self) -> tuple[int, ...]:
        """The columns whose values depend a little on the order of rows."""
        if not any(isinstance(node, Aggregate | Window) for node in walk(self.write.logical)):
            return ()
        kinds = [self.write.table.columns[i].type.kind for i in self.write.columns]
        return tuple(
            i
            for i, kind in enumerate(kinds)
            if kind in (Kind.DOUBLE, Kind.REAL) and i not in self.keys
        )

    def _table_of(self) -> Any:
        """The function that returns the replayed table of a Scan."""
        assert isinstance(self.write.physical, Physical)
        scans = position_vertices(self.write.physical).scans
        found: dict[int, tuple[Mapping[str, SavedPartition] | None, Mapping[str, Token]]] = {}
        for vertex, table in scans.items():
            saved = self.instant.saved.get(vertex)
            if found.get(id(table), (saved,))[0] != saved:
                raise NotSupportedError(
                    f'job "{self.job.name}" can\'t be verified: '
                    f'it reads "{table.name}" more than once',
                    detail="and has read different amounts of it",
                    hint="VERIFY it when it has ended",
                )
            found[id(table)] = saved, self.job.record.beginnings.get(vertex, {})

        scanned = (node for node in walk(self.write.logical) if isinstance(node, Scan))
        elsewhere = {
            id(node): self.instant.inputs[i]
            for i, node in enumerate(scanned)
            if i in self.instant.inputs
        }

        def table_of(scan: Scan) -> Table:
            table = scan.table
            saved, beginnings = found.get(id(table), (None, {}))
            if id(scan) in elsewhere:
                return elsewhere[id(scan)]
            if not isinstance(table, ReadableTable) or not (
                table.is_unbounded or saved is not None
            ):
                return table
            return ReplayedTable(table, saved, beginnings)

        return table_of

    @property
    def notes(self) -> list[str]:
        """Remarks on the comparison, for the user."""
        job, instant, timed = self.job, self.instant, self.timed
        if instant.name is None:
            notes = ["of all that the job has read"]
        elif self.is_final or timed is None:
            notes = [f"at {instant.name}"]
        else:
            watermark = instant.watermark(timed.bound.watermark)
            kind = timed.relation.fields[-1].type
            shown = (
                "no watermark yet"
                if watermark is None
                else f"watermark {_time_text(watermark, kind)}"
            )
            notes = [f"at {instant.name}, {shown}"]
        if self.sample is not None:
            names = ", ".join(self.written.columns[i].name for i in self.sampled_by)
            notes.append(f"a sample of {self.sample.share * 100:g} %, by the hash of {names}")
        if job.late_in_all:
            notes.append(f"late rows: {job.late_in_all}; differences there are expected")
        guarantee = _guarantee(job)
        if guarantee != str(Guarantee.EXACTLY_ONCE) and job.record.restarts:
            notes.append(f"{guarantee}: after a restart rows may be there twice, or not")
        as_now = sorted({table.name for table in self.write.tables if self._is_as_now(table)})
        if as_now:
            notes.append(f"read as it is now: {', '.join(as_now)}")
        return notes

    def _is_as_now(self, table: Table) -> bool:
        return self.write.is_unbounded and not table.is_unbounded


def _gives_early(relation: Relation) -> bool:
    return any(
        getattr(getattr(node, "emission", None), "every", None) is not None
        for node in walk(relation)
    )


def _run(
    session: Session, plan: QueryPlan, evaluation: EvaluationContext, call: StatementCall
) -> Result:
    job = call.start(
        session, plan, plan.dag(parallelism(session, plan.tables)), evaluation=evaluation
    )
    job.run_here()
    return Result.of_job(plan.fields, job, is_unbounded=False, can_end=True)


def _reported_rows(comparison: _Comparison, found: Result) -> Result:
    """The result of VERIFY JOB."""
    same = expected = actual = 0
    rows: list[Row] = []
    for batch in found.batches():
        expected, actual, same = (
            n + (pc.sum(batch.column(i)).as_py() or 0)
            for i, n in ((1, expected), (2, actual), (3, same))
        )
        if len(rows) < SHOWN:
            for values in batch.slice(0, SHOWN + 1).to_pylist():
                rows += _differing(comparison, values)
    notes = comparison.notes
    if comparison.sample is not None and not same and not expected and not actual:
        notes.append(
            "no row is in the sample: make it larger, "
            "or take it by a column of more values with 'sampleBy'"
        )
    if not expected and not actual:
        return Result(_FIELDS, [("equal", same, None, "; ".join(notes))])
    notes.insert(1, f"{same} rows are equal")
    if actual and not expected:
        notes.append("the sink may have rows of others, or from before the job")
    first: Row = ("different", expected + actual, None, "; ".join(notes))
    return Result(_FIELDS, [first, *rows[:SHOWN]])


def _differing(comparison: _Comparison, values: Mapping[str, Any]) -> list[Row]:
    """The shown rows for a row of the comparison: one for each side that has it."""
    if not values["differs"]:
        return []
    apart = comparison.compared.apart
    names = [column.name for column in comparison.written.columns]
    shown: list[Row] = []
    for count, side, what in (
        ("expected_rows", "e", "only in the replay"),
        ("actual_rows", "a", "only in the sink"),
    ):
        if values[count]:
            row = [values[f"{side if i in apart else 'c'}{i}"] for i in range(len(names))]
            text = ", ".join(
                f"{name}={_shown(value)}" for name, value in zip(names, row, strict=True)
            )
            shown.append((what, values[count], text, None))
    return shown


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return (
        f"'{value}'" if isinstance(value, str | date | datetime | time | timedelta) else str(value)
    )


def _time_text(instant: int, kind: SqlType) -> str:
    """An event time as text."""
    if not kind.is_temporal:
        return str(instant)
    try:
        return str(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=instant)).removesuffix(
            "+00:00"
        )
    except OverflowError:
        return str(instant)
