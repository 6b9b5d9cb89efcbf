"""Every query whose answer is written down, as a job over streams of the same rows: stopped at
snapshots, restored at others.

A query of an `.slt` file that can be asked of streams, of NEXMark, or of the tests' lists runs as a
durable job with snapshots every few milliseconds. A third into its streams it is suspended, and
goes on with another number of processors; after two thirds it is dropped, and another job begins
from the snapshot that it left, with another number again. What both have committed must be the
answer, row by row.

    python -m tests.snapshots.goldens [NEXMark | lists | slt | windows_hop | …]
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import runnel
from benchmarks.nexmark import STREAMED, TABLES, duckdb_query, query
from runnel.catalog import TableColumn, View
from runnel.connector import ReadableTable
from runnel.sqltypes import INTEGER_WIDTHS, Kind
from runnel.statements.arguments import argument_types
from runnel.testing.rows import rows_of
from tests.nexmark.test_nexmark import EVENTS, SIDE, mapped
from tests.processors.over import test_by_watermark, test_streamed
from tests.slt.records import Record, read
from tests.slt.runner import Failure, Run
from tests.snapshots.staged import Stage, StagedOutput, StagedTable
from tests.streams import ended_streams, test_streams_that_end
from tests.streams.random_queries.generated import Rows, _shown, agree
from tests.streams.random_streams import batch_of, random_rows, schema_of

SLT = Path(__file__).parents[1] / "slt"
PATIENCE = 30.0
OPTIONS = "'snapshotIntervalMillis' = '5'"
PARALLELISM = ((1, 3, 2), (2, 1, 3), (3, 2, 1))
TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, *INTEGER_WIDTHS)
MOST_FORMS = 24

WITHOUT_ONE_ANSWER = ("EMIT EVERY", "LIMIT ", "FETCH ", "LATE DATA INTO", "CHANGES(")
"""Which rows such a query gives of a stream goes by the clock, or by which come first."""

KEEPING = (
    "TABLE(",
    " JOIN ",
    " OVER ",
    "EXISTS",
    "(SELECT",
    "GROUP BY",
    "DISTINCT",
    " UNION ",
    "UNNEST",
    "LATERAL",
)
"""The others, row by row, keep nothing that a snapshot could lose but where they are."""


@dataclass
class Golden:
    """`tables`: what it reads; `times`: the columns that may be the event time of each, as those of
    streams."""

    name: str
    sql: str
    expected: Rows
    columns: tuple[TableColumn, ...]
    tables: dict[str, tuple[tuple[TableColumn, ...], pa.Table]]
    times: dict[str, tuple[int | None, ...]]
    arguments: tuple[Any, ...] = ()
    views: dict[str, View] = field(default_factory=dict)


@dataclass
class Tally:
    """`refused`: why a query can't be asked of streams."""

    agreed: int = 0
    restores: int = 0
    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.agreed} goldens agreed ({kinds}): {self.rows} rows, {self.restores} restores "
            "in the middle at another "
            f"parallelism; {self.refused.total()} queries have no form over streams"
        )


class Bench:
    """A connection to a directory, on which one golden after the other runs."""

    def __init__(self, folder: Path) -> None:
        self.connection = runnel.connect(folder / "directory")
        self.tally = Tally()

    def close(self) -> None:
        self.connection.close()

    def difference(self, golden: Golden) -> str | None:
        """What is wrong; None where the answer is right, or where the query has no form over
        streams."""
        refusal = ""
        for number, form in enumerate(itertools.islice(_forms(golden), MOST_FORMS)):
            try:
                found = self._run(
                    golden, form, PARALLELISM[(len(golden.sql) + number) % len(PARALLELISM)]
                )
            except (runnel.NotSupportedError, _NoFormError) as error:
                refusal = getattr(error, "message", str(error))
                continue
            except runnel.Error as error:
                if error.code is runnel.ErrorCode.OBJECT_NOT_FOUND:
                    refusal = "it names a table that it doesn't read"
                    continue
                return f"{golden.name}: {golden.sql}\n  as {form}: {error}"
            if not agree(found, golden.expected, exact=False):
                return f"{golden.name}: {golden.sql}\n  as {form}: {_shown(found, golden.expected)}"
            self.tally.agreed += 1
            self.tally.rows += len(found)
            self.tally.kinds[golden.name.partition(":")[0]] += 1
            return None
        self.tally.refused[refusal] += 1
        return None

    def _run(
        self,
        golden: Golden,
        form: Mapping[str, int | str | None],
        parallelism: tuple[int, int, int],
    ) -> Rows:
        stage, output = Stage(), StagedOutput("output", golden.columns)
        made: dict[str, Any] = {"output": output}
        for name, (columns, rows) in golden.tables.items():
            at = form[name]
            if (
                isinstance(at, int)
                and rows.column(at).null_count
                and "RANGE" not in golden.sql
                and f"ORDER BY {columns[at].name}".upper() in golden.sql.upper()
            ):
                raise _NoFormError(
                    "a row without a time comes first of all in OVER, "
                    "so it is late when others were given"
                )
            made[name] = (
                StagedTable(name, columns, rows)
                if at == "table"
                else StagedTable(name, columns, rows, stage, at)
            )  # type: ignore[arg-type]
        for name, table in made.items():
            self.connection._register(name, table)
        for view in golden.views.values():
            self.connection._database.change(put=view)
        try:
            self._stages(golden, stage, parallelism)
        finally:
            for job in ("first", "second"):
                self.connection.execute(f"DROP JOB IF EXISTS {job}", timeout=PATIENCE)
            for snapshot in ("before", "half"):
                self.connection.execute(f"DROP SNAPSHOT IF EXISTS {snapshot}")
            for name in golden.views:
                self.connection.execute(f'DROP VIEW "{name}"')
            for name in made:
                self.connection.unregister(name)
        assert output.staged == {}, "rows that were staged and never committed"
        return rows_of(output.visible)

    def _stages(self, golden: Golden, stage: Stage, parallelism: tuple[int, int, int]) -> None:
        execute, sql = self.connection.execute, f"SINK INTO output {golden.sql}"
        execute(f"SET query_parallelism = {parallelism[0]}")
        execute(f"CREATE JOB first OPTIONS ({OPTIONS}) AS {sql}", golden.arguments)
        first = self.connection.job("first")
        if not first.record.is_unbounded:
            raise _NoFormError("it reads no stream")
        first.add_listener(
            lambda change: stage.end() if change.new is runnel.JobStatus.COMPLETED else None
        )
        if not self._stopped(stage, first, lambda: first.suspend(PATIENCE)):
            return
        execute(f"SET query_parallelism = {parallelism[1]}")
        stage.next()
        first.resume()
        if not self._stopped(
            stage, first, lambda: first.cancel_and_export_snapshot("half", PATIENCE)
        ):
            return
        execute(f"SET query_parallelism = {parallelism[2]}")
        stage.next()
        execute(
            f"CREATE JOB second OPTIONS ({OPTIONS}, 'initialSnapshotName' = 'half') AS {sql}",
            golden.arguments,
        )
        self.connection.job("second").join(PATIENCE)

    def _stopped(self, stage: Stage, job: runnel.NamedJob, stop: Callable[[], object]) -> bool:
        """Stops the job when it has read all of the stage, and the tables beside the streams; False
        where it wants no more."""
        if not job.is_done and stage.wait(PATIENCE):
            try:
                job.export_snapshot("before", PATIENCE / 3)
                stop()
            except runnel.Error as error:
                if not job.is_done and error.code is runnel.ErrorCode.TIMEOUT:
                    raise _NoFormError(
                        "it must know the end of a stream before there is anything to snapshot"
                    ) from None
            else:
                self.tally.restores += 1
                return True
        job.join(PATIENCE)  # it wants no more
        return False


class _NoFormError(Exception):
    pass


def _forms(golden: Golden) -> Iterator[dict[str, Any]]:
    """Which tables are streams, and by which column: all of them first, then one beside tables."""
    choices = [[(name, at) for at in golden.times[name]] for name in golden.tables]
    yield from (dict(form) for form in itertools.product(*choices))
    if len(choices) > 1:
        for streamed in choices:
            for name, at in streamed:
                yield {other: at if other == name else "table" for other in golden.tables}


class _Collecting(Run):
    """Runs a file as the suite does, and keeps each query with its answer and the tables as they
    are then."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.found: list[Golden] = []

    def _query(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        super()._query(record, sql, arguments)
        text = sql.upper()
        if any(word in text for word in WITHOUT_ONE_ANSWER) or not any(
            word in text for word in KEEPING
        ):
            return
        database = self._connection._database
        used = {
            id(table)
            for table in getattr(
                self._connection._session.prepare(sql, argument_types(arguments)), "tables", ()
            )
        }
        objects = database.catalog.snapshot.objects.values()
        views = {item.name: item for item in objects if isinstance(item, View)}
        found = {
            item.name: item.table
            for item in objects
            if not isinstance(item, View) and id(item.table) in used
        }
        tables = {name: table for name, table in found.items() if isinstance(table, ReadableTable)}
        if not tables or len(tables) < len(used):
            return
        cursor = self._connection.execute(sql, arguments)
        answer = rows_of(cursor.fetch_arrow_table())
        columns = tuple(
            TableColumn(f"c{i}", item.type_code) for i, item in enumerate(cursor.description or ())
        )
        kept = {name: (table.columns, self._rows(name, table)) for name, table in tables.items()}
        times = {name: _times(table.columns, sql) for name, table in tables.items()}
        self.found.append(
            Golden(f"slt: {record.place}", sql, answer, columns, kept, times, arguments, views)
        )

    def _rows(self, name: str, table: ReadableTable) -> pa.Table:
        names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in table.columns)
        return self._connection.execute(f'SELECT {names} FROM "{name}"').fetch_arrow_table()


def _times(columns: tuple[TableColumn, ...], sql: str) -> tuple[int | None, ...]:
    """Columns that the query may go by as event time: those of DESCRIPTOR first, then moments, then
    none."""
    text = sql.lower()
    named = [i for i, column in enumerate(columns) if f"descriptor({column.name.lower()})" in text]
    moments = [
        i
        for i, column in enumerate(columns)
        if column.type.kind in TIMES[:3] and column.name.lower() in text
    ]
    return (*dict.fromkeys((*named, *moments)), None)


def of_slt(path: Path, scratch: Path) -> list[Golden]:
    """The queries of an .slt file over tables."""
    folder = scratch / path.stem
    folder.mkdir()
    run = _Collecting(folder, {"query_parallelism": 1}, with_oracle=False)
    try:
        for record in read(path):
            run.run(record)
    finally:
        run.close()
    return run.found


def of_nexmark(jitter: int, events: int = EVENTS) -> Iterator[Golden]:
    """The queries of NEXMark that streams can be asked, with DuckDB's answers, over rows that come
    so many ms too late."""
    import duckdb

    late = f", 'jitterMillis' = '{jitter}'"
    with (
        mapped(events=events) as ordered,
        mapped(late, events=events) as shuffled,
        duckdb.connect() as other,
    ):
        tables = {}
        for name in TABLES:
            other.register(name, ordered.execute(f"SELECT * FROM {name}").fetch_arrow_table())
            tables[name] = shuffled.execute(f"SELECT * FROM {name}").fetch_arrow_table()
        other.register("side_input", SIDE)
        ordered.execute("SET query_parallelism = 1")
        for name in STREAMED:
            sql = query(name)
            plan: Any = ordered._session.prepare(sql, ())
            used = {table.name: table for table in plan.tables}
            cursor = ordered.execute(sql)
            columns = tuple(
                TableColumn(f"c{i}", item.type_code)
                for i, item in enumerate(cursor.description or ())
            )
            kept = {
                key: (table.columns, SIDE if key == "side_input" else tables[key])
                for key, table in used.items()
            }
            times: dict[str, Any] = {
                key: (_column(table.columns, "date_time"),) for key, table in used.items()
            }
            if "side_input" in times:
                times["side_input"] = ("table",)
            expected = [tuple(row) for row in other.execute(duckdb_query(name)).fetchall()]
            yield Golden(f"NEXMark: {name}, {jitter} ms", sql, expected, columns, kept, times)


def _column(columns: tuple[TableColumn, ...], name: str) -> int | None:
    return next((i for i, column in enumerate(columns) if column.name == name), None)


def of_lists() -> Iterator[Golden]:
    """The queries that tests of streams list, next to the same over tables."""
    module = test_streams_that_end
    for (number, text), windows in itertools.product(enumerate(module.QUERIES), module.WINDOWS):
        if windows == "SESSION" and "BY window_start" in text and "window_end" not in text:
            continue
        rng = random.Random(f"{number} {windows}")
        schema = schema_of(pa.timestamp("us") if number % 2 else pa.int64())
        table = pa.Table.from_batches(
            [batch_of(random_rows(rng, 150, disorder=20), schema)], schema
        )
        sql = module.sql_of(text, windows, "TABLE events", bool(number % 2))
        yield _of_tables(f"lists: {windows}, query {number}", sql, {"events": table}, 0)
    for name, text in {**test_streamed.QUERIES, **test_by_watermark.QUERIES}.items():
        rng = random.Random(name)
        tables = {
            key: ended_streams.random_table(rng, 150)
            for key in "ab"
            if f"{{{key}" in text or f"{{w{key}" in text
        }
        tables = tables or {"a": ended_streams.random_table(rng, 150)}
        yield _of_tables(
            f"lists: {name}", ended_streams.bounded(text), tables, 1 if "{at}" in text else 2
        )


def _of_tables(name: str, sql: str, tables: dict[str, pa.Table], time: int) -> Golden:
    with runnel.connect() as connection:
        for key, table in tables.items():
            connection.register(key, table)
        cursor = connection.execute(sql)
        expected = rows_of(cursor.fetch_arrow_table())
        columns = tuple(
            TableColumn(f"c{i}", item.type_code) for i, item in enumerate(cursor.description or ())
        )
        plan: Any = connection._session.prepare(sql, ())
        kept = {table.name: (table.columns, tables[table.name]) for table in plan.tables}
    return Golden(name, sql, expected, columns, kept, dict.fromkeys(kept, (time,)))


def collected(scratch: Path, part: str) -> Iterator[Golden]:
    sources = {
        "NEXMark, in order": lambda: of_nexmark(0),
        "NEXMark, 3 s out of order": lambda: of_nexmark(3_000),
        "lists": of_lists,
        **{
            f"slt, {path.stem}": partial(of_slt, path, scratch)
            for path in sorted(SLT.glob("*/*.slt"))
        },
    }
    for name, source in sources.items():
        if part in name:
            yield from source()


def main(part: str = "") -> int:
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            for golden in collected(Path(folder), part):
                try:
                    difference = bench.difference(golden)
                except (AssertionError, Failure) as error:
                    difference = f"{golden.name}: {golden.sql}\n  {error}"
                if difference is not None:
                    failed += 1
                    print(difference, flush=True)
        finally:
            bench.close()
    print(f"{bench.tally}; {failed} failed; {time.monotonic() - began:.0f} s")
    for message, count in bench.tally.refused.most_common(15):
        print(f"  {count} x {message}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
