"""What the sinks of every table that promises exactly-once must do: a connector's tests inherit
this class and say how a new process finds the table. Beside it stands the conformance of sinks of
light jobs (tests/connectors/conformance.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel.connector import Sink, SinkRequest, Token, WriteMode
from runnel.processor import Guarantee
from tests.connectors.conformance import PEOPLE, Row, batch_of, people, read_rows, visible
from tests.sinks.crashing_job import CrashingJob

OWNER = "0f3a/write t"
ROWS = people(36)
BATCHES = [batch_of(PEOPLE, ROWS[i : i + 3]) for i in range(0, 36, 3)]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # who is killed closes no files
class DurableConformance:
    """Subclasses are named Test… and define `reopened`."""

    seeds = 6
    """How many jobs are killed again and again."""

    outlives = True
    """Whether what is staged outlives the process, so that `reopened` may forget all that is in
    memory."""

    def reopened(self, path: Path) -> Any:
        """The table, of the columns PEOPLE, as a new process opens it; at first it is empty."""
        raise NotImplementedError

    def traces(self, path: Path) -> list[str]:
        """What is left on disk of rows that are staged, or being written."""
        raise NotImplementedError

    def rows_in(self, table: Any) -> list[Row]:
        """What a reader sees."""
        return read_rows(table)

    def sink(self, table: Any, owner: str = OWNER) -> Sink:
        mode = WriteMode.SINK if WriteMode.SINK in table.write_modes else WriteMode.INSERT
        sink: Sink = table.sink(SinkRequest(mode, visible(table), owner))
        return sink

    def staged(self, table: Any, batch: pa.RecordBatch, owner: str = OWNER) -> Token:
        """Of a process that is killed then."""
        sink = self.sink(table, owner)
        sink.recover(())
        sink.write(batch)
        return sink.stage(1)

    def test_the_table_promises_it(self, tmp_path: Path) -> None:
        assert self.reopened(tmp_path).guarantee is Guarantee.EXACTLY_ONCE

    def test_a_job_killed_again_and_again_writes_each_row_once(self, tmp_path: Path) -> None:
        crashes = 0
        for seed in range(self.seeds):
            path = tmp_path / str(seed)
            path.mkdir()
            job = CrashingJob(seed, BATCHES, lambda path=path: self.sink(self.reopened(path)))  # type: ignore[misc]
            job.run()
            crashes += job.crashes
            assert sorted(self.rows_in(self.reopened(path))) == ROWS, seed
            assert self.traces(path) == [], seed
        assert crashes > 2 * self.seeds

    def test_nothing_of_a_killed_job_is_seen(self, tmp_path: Path) -> None:
        self.staged(self.reopened(tmp_path), BATCHES[0])
        unstaged = self.sink(self.reopened(tmp_path))
        unstaged.write(BATCHES[1])
        assert self.rows_in(self.reopened(tmp_path)) == []

    def test_what_the_snapshot_counts_is_committed_once_and_the_rest_given_up(
        self, tmp_path: Path
    ) -> None:
        first = self.staged(self.reopened(tmp_path), BATCHES[0])
        sink = self.sink(self.reopened(tmp_path))
        sink.recover([first])
        sink.write(BATCHES[1])
        second = sink.stage(2)
        sink.write(BATCHES[2])
        third = sink.stage(3)
        sink.write(BATCHES[3])
        del sink
        for _ in range(2):
            table = self.reopened(tmp_path)
            sink = self.sink(table)
            sink.recover([first, second])
            assert sorted(self.rows_in(table)) == ROWS[:6]
            assert self.traces(tmp_path) == []
            sink.close()
        late = self.sink(self.reopened(tmp_path))
        late.recover([first])
        assert sorted(self.rows_in(self.reopened(tmp_path))) == ROWS[:6]
        assert third != second

    def test_other_jobs_keep_what_they_staged(self, tmp_path: Path) -> None:
        own = self.staged(self.reopened(tmp_path), BATCHES[0])
        other = self.staged(self.reopened(tmp_path), BATCHES[1], OWNER + " 2")
        sink = self.sink(self.reopened(tmp_path))
        sink.recover(())
        sink.close()
        sink = self.sink(self.reopened(tmp_path), OWNER + " 2")
        sink.recover([other])
        sink.close()
        assert sorted(self.rows_in(self.reopened(tmp_path))) == ROWS[3:6]
        assert own != other

    def test_a_sink_without_owner_gives_up_nothing_of_others(self, tmp_path: Path) -> None:
        token = self.staged(self.reopened(tmp_path), BATCHES[0])
        light = self.sink(self.reopened(tmp_path), "")
        light.recover(())
        light.close()
        sink = self.sink(self.reopened(tmp_path))
        sink.recover([token])
        sink.close()
        assert sorted(self.rows_in(self.reopened(tmp_path))) == ROWS[:3]

    def test_closing_keeps_what_is_staged(self, tmp_path: Path) -> None:
        sink = self.sink(self.reopened(tmp_path))
        sink.recover(())
        sink.write(BATCHES[0])
        token = sink.stage(1)
        sink.write(BATCHES[1])
        sink.close()
        again = self.sink(self.reopened(tmp_path))
        again.recover([token])
        again.close()
        assert sorted(self.rows_in(self.reopened(tmp_path))) == ROWS[:3]
        assert self.traces(tmp_path) == []

    def test_rows_between_stage_and_commit_belong_to_the_next_token(self, tmp_path: Path) -> None:
        table = self.reopened(tmp_path)
        sink = self.sink(table)
        sink.recover(())
        sink.write(BATCHES[0])
        first = sink.stage(1)
        sink.write(BATCHES[1])
        sink.commit(first)
        assert sorted(self.rows_in(table)) == ROWS[:3]
        sink.commit(sink.stage(2))
        assert sorted(self.rows_in(table)) == ROWS[:6]
        sink.close()

    def test_an_empty_token_commits_no_row_that_came_later(self, tmp_path: Path) -> None:
        table = self.reopened(tmp_path)
        sink = self.sink(table)
        sink.recover(())
        token = sink.stage(1)
        sink.write(BATCHES[0])
        sink.commit(token)
        assert self.rows_in(table) == []
        sink.close()

    @pytest.mark.parametrize("rows", [0, 3])
    def test_an_aborted_token_leaves_nothing(self, tmp_path: Path, rows: int) -> None:
        sink = self.sink(self.reopened(tmp_path))
        sink.recover(())
        if rows:
            sink.write(BATCHES[0])
        sink.abort(sink.stage(1))
        sink.close()
        assert self.rows_in(self.reopened(tmp_path)) == []
        assert self.traces(tmp_path) == []
