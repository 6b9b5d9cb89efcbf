"""Streaming queries whose answers are written down, as jobs on Spark: what its streaming query
gives is what the tables give.

A stream of Spark's has no end. So its files are followed by one more, with a row ten years later
that completes all that was open; when Spark has nothing more to do, the rows that the query gives
of the tables must be there, and besides them no others than the late row adds to them.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import runnel
from runnel.sqltypes import Kind
from runnel.testing.rows import rows_of
from tests.both_runtimes.pair import SETTINGS, Difference
from tests.both_runtimes.tally import Tally
from tests.both_runtimes.workers import shared_out
from tests.snapshots.goldens import Golden, _forms, _of_tables
from tests.snapshots.staged import StagedOutput, _disorder
from tests.spark_process import INTERPRETED, new_session
from tests.streams import test_streams_that_end
from tests.streams.random_queries.generated import agree
from tests.streams.random_streams import batch_of, random_rows, schema_of

_VALUE = re.compile(r'"[^"]*"')
FILES = 2
LATER = timedelta(days=3653)
PATIENCE = 120.0
MOST_FORMS = 8


class Streams:
    """A connection to Spark, on which one golden after the other runs, for one thread. `tally`
    counts them, and hears why Spark can't run the others."""

    def __init__(self, folder: Path, tally: Tally) -> None:
        self.session = new_session({**SETTINGS, **INTERPRETED})
        self.folder = folder
        self.tally = tally
        self.there = runnel.connect(spark=self.session)
        self.here = runnel.connect(pushdown=False)
        self.rows = 0
        self._numbers = itertools.count()

    def close(self) -> None:
        self.there.close()
        self.here.close()

    def difference(self, golden: Golden) -> Difference | None:
        """What is wrong; None where the answer is right, or where Spark can't run the query."""
        refusals: list[str] = []
        for form in itertools.islice(_forms(golden), MOST_FORMS):
            if all(at == "table" for at in form.values()):
                continue
            try:
                found = self._run(golden, form)
            except _NoFormError as refusal:
                refusals.append(str(refusal))
                continue
            except Exception as error:  # what Spark can't do must be refused before it runs
                found = repr(error)
            self.tally.same()
            return (
                None
                if found is None
                else Difference(f"{golden.name}: {golden.sql}", f"as {form}: {found}")
            )
        # The first form has the most event times.
        self.tally.leave(
            _VALUE.sub('"…"', refusals[0]) if refusals else "it has no form over streams"
        )
        return None

    def _run(self, golden: Golden, form: Mapping[str, Any]) -> str | None:
        home = self.folder / str(next(self._numbers))
        output = StagedOutput("output", golden.columns)
        made, whole, longer = ["output"], {}, {}
        followed = {
            name: self._rows_of(golden, name, at) for name, at in form.items() if at != "table"
        }
        try:
            self.there._register("output", output)
            for name, (_, given) in golden.tables.items():
                made.append(name)
                if name in followed:
                    whole[name], longer[name] = followed[name]
                    self._follow(home / name, golden, name, whole[name], form[name])
                else:
                    whole[name] = longer[name] = given
                    self._table(golden, name)
            for view in golden.views.values():
                self.there._database.change(put=view)
            self._drained(golden, {name: (home / name, *followed[name]) for name in followed})
        finally:
            self._clear(golden, made)
            shutil.rmtree(home, ignore_errors=True)
        assert output.staged == {}, "rows that were staged and never committed"
        return self._compared(golden, rows_of(output.visible), whole, longer)

    def _table(self, golden: Golden, name: str) -> None:
        """Makes a table beside the streams known to Spark."""
        columns, given = golden.tables[name]
        try:
            frame = self.session.createDataFrame(given)
        except Exception as error:
            raise _NoFormError(f"a table that no DataFrame can be: {str(error)[:80]}") from None
        self.there.register(name, frame)
        table: Any = self.there._database.catalog.snapshot.get(name)
        for one, two in zip(columns, table.table.columns, strict=False):
            if one.type != two.type:
                raise _NoFormError(f"in a DataFrame {one.type} is {two.type}")

    def _rows_of(self, golden: Golden, name: str, at: int | None) -> tuple[pa.Table, pa.Table]:
        """The rows that a stream can have, and these with the last one, where there is an event
        time."""
        columns, given = golden.tables[name]
        if given.num_rows == 0:
            raise _NoFormError("a stream without rows")
        if at is None:
            if any(
                "IMPOSE_ORDER" in text
                for text in (golden.sql, *(view.sql for view in golden.views.values()))
            ):
                raise _NoFormError(
                    "an event time that the query imposes, without a row that completes all"
                )
            return given, given
        time = columns[at]
        if time.type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            raise _NoFormError(f"event time of type {time.type}")
        rows = given.filter(
            pc.is_valid(given.column(at))
        )  # see docs/spark_differences.md, here and in the next line
        rows = rows.filter(pc.greater_equal(pc.cast(rows.column(at), pa.int64()), 0))
        if rows.num_rows == 0:
            raise _NoFormError("a stream without rows after 1970")
        last = rows.slice(rows.num_rows - 1)
        late = (
            pc.max(rows.column(at)).as_py()
            + LATER
            + timedelta(microseconds=_disorder(rows.to_batches(), at))
        )
        last = last.set_column(
            at, rows.schema.field(at), pa.array([late], rows.schema.field(at).type)
        )
        return rows, pa.concat_tables([rows, last])

    def _clear(self, golden: Golden, made: list[str]) -> None:
        self.there.execute("DROP JOB IF EXISTS j", timeout=PATIENCE)
        for name in golden.views:
            self.there.execute(f'DROP VIEW IF EXISTS "{name}"')
        for name in made:
            if self.there._database.catalog.snapshot.get(name) is None:
                continue
            try:
                self.there.unregister(name)
            except runnel.Error:
                self.there.execute(f'DROP MAPPING IF EXISTS "{name}"')

    def _follow(
        self, folder: Path, golden: Golden, name: str, rows: pa.Table, at: int | None
    ) -> None:
        """Makes the mapping that follows the rows of a folder."""
        columns = golden.tables[name][0]
        folder.mkdir(parents=True)
        shown = [f'"{column.name}" {column.type}' for column in columns]
        if at is not None:
            lag, time = _disorder(rows.to_batches(), at), columns[at].name
            shown.append(f'WATERMARK FOR "{time}" AS "{time}" - INTERVAL \'{lag / 1e6:f}\' SECOND')
        options = (
            f"'format' = 'parquet', 'path' = '{folder}', 'follow' = 'true', "
            "'maxFilesPerTrigger' = '1'"
        )
        self.there.execute(
            f'CREATE MAPPING "{name}" ({", ".join(shown)}) TYPE Spark OPTIONS ({options})'
        )

    def _drained(
        self, golden: Golden, followed: Mapping[str, tuple[Path, pa.Table, pa.Table]]
    ) -> None:
        """Runs the query as a job until Spark has nothing more to do."""
        create = (
            (
                "CREATE JOB j OPTIONS ('runtime' = 'spark', 'snapshotIntervalMillis' = '10') AS "
                f"SINK INTO output {golden.sql}"
            ),
            golden.arguments,
        )
        try:
            self.there.execute(f"EXPLAIN {create[0]}", create[1]).fetchall()
        except (runnel.NotSupportedError, runnel.ProgrammingError) as refusal:
            raise _NoFormError(
                refusal.message.removeprefix("the job can't run on spark: ")
            ) from None
        for folder, rows, longer in followed.values():
            size = -(-rows.num_rows // FILES)
            parts = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
            for number, part in enumerate([*parts, longer.slice(rows.num_rows)]):
                if part.num_rows:
                    _write(part, folder, number)
        self.there.execute(*create)
        job = self.there.job("j")
        if not job.record.is_unbounded:
            job.join(PATIENCE)
            return
        owner: Any = next(
            item.table.owner
            for item in self.there._database.catalog.snapshot.objects.values()
            if hasattr(getattr(item, "table", None), "owner")
        )
        end, pause = monotonic() + PATIENCE, Event()
        while (
            not (active := owner.get().own.streams.active) and not job.is_done and job.error is None
        ):
            assert monotonic() < end, f"the streaming query didn't begin: the job is {job.status}"
            pause.wait(0.02)
        for query in active:
            try:
                query.processAllAvailable()
            except Exception as error:
                while job.error is None:  # the job says why it failed
                    assert monotonic() < end, error
                    pause.wait(0.05)
        if job.error is not None:
            raise job.error
        job.suspend(PATIENCE)

    def _compared(
        self,
        golden: Golden,
        found: list[Any],
        whole: Mapping[str, pa.Table],
        longer: Mapping[str, pa.Table],
    ) -> str | None:
        wanted, most = self._here(golden, whole), self._here(golden, longer)
        self.rows += len(found)
        added = list((Counter(map(repr, most)) - Counter(map(repr, wanted))).elements())
        kept = _without(found, added)
        if agree(kept, wanted, exact=True) or agree(found, wanted, exact=True):
            return None
        more = sorted((Counter(map(repr, kept)) - Counter(map(repr, wanted))).elements())
        less = sorted((Counter(map(repr, wanted)) - Counter(map(repr, kept))).elements())
        return f"{len(kept)} rows, not {len(wanted)}; too much: {more[:4]}; missing: {less[:4]}"

    def _here(self, golden: Golden, tables: Mapping[str, pa.Table]) -> list[Any]:
        for name, rows in tables.items():
            self.here.register(name, rows)
        for view in golden.views.values():
            self.here._database.change(put=view)
        try:
            return rows_of(
                self.here.execute(
                    golden.sql, golden.arguments, timeout=PATIENCE
                ).fetch_arrow_table()
            )
        finally:
            for name in golden.views:
                self.here.execute(f'DROP VIEW IF EXISTS "{name}"')
            for name in tables:
                self.here.unregister(name)


class _NoFormError(Exception):
    pass


def _without(rows: list[Any], added: list[str]) -> list[Any]:
    """The rows but those that the late row adds."""
    left, kept = Counter(added), []
    for row in rows:
        text = repr(row)
        if left[text]:
            left[text] -= 1
        else:
            kept.append(row)
    return kept


def _write(rows: pa.Table, folder: Path, number: int) -> None:
    """A file; it is by the time of its last change that Spark puts them in order."""
    path = folder / f".{number}"
    pq.write_table(rows, path)
    os.utime(path, (1_700_000_000 + number,) * 2)
    path.rename(folder / f"{number:03}.parquet")


def of_windows() -> Iterator[Golden]:
    """The queries over windows that tests of streams list, all of them with TIMESTAMP, which Spark
    wants for event time; spans and times are of milliseconds, as Spark's watermarks are, and those
    of the first query of microseconds, too."""
    module = test_streams_that_end
    schema = schema_of(pa.timestamp("us"))
    for (number, text), windows in itertools.product(enumerate(module.QUERIES), module.WINDOWS):
        if windows == "SESSION" and "BY window_start" in text and "window_end" not in text:
            continue
        rows = random_rows(random.Random(f"{number} {windows}"), 150, disorder=20, start=1_000_000)
        table = pa.Table.from_batches([batch_of(rows, schema)], schema)
        sql = module.sql_of(text, windows, "TABLE events", True)
        if number == 0:
            yield _of_tables(f"windows: {windows} of microseconds", sql, {"events": table}, 0)
        place = schema.get_field_index("t")
        times = pc.multiply(table.column(place).cast(pa.int64()), 1_000).cast(
            schema.field(place).type
        )
        table = table.set_column(place, schema.field(place), times)
        yield _of_tables(
            f"windows: {windows}, query {number}",
            sql.replace("'0.0000", "'0.0"),
            {"events": table},
            0,
        )


def differences(
    streams: Sequence[Streams], goldens: Iterable[Golden]
) -> Iterator[tuple[str, Difference | None]]:
    """What is otherwise on Spark, by the golden."""
    yield from shared_out(
        goldens, streams, lambda worker, golden: (golden.name, worker.difference(golden))
    )
