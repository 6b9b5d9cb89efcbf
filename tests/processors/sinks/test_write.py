"""Writing: everything becomes visible at the end, or nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.errors import OperationalError
from runnel.processors.sinks.write import WriteProcessor
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from tests.processors.places import CollectingOutbox, place


class RecordingSink(Sink):
    """Notes what is asked of it; fails in the call named `fails_in`."""

    def __init__(self, table: RecordingTable) -> None:
        self.table = table
        self.cooperative = table.cooperative
        self.rows: list[int] = []

    def _note(self, call: str) -> None:
        self.table.calls.append(call)
        if self.table.fails_in == call:
            raise OperationalError(f"the disk is full in {call}")

    def write(self, batch: pa.RecordBatch) -> None:
        self._note("write")
        self.rows += batch.column(0).to_pylist()

    def stage(self, epoch: int) -> Token:
        self._note("stage")
        return {"epoch": epoch}

    def commit(self, token: Token) -> None:
        self._note("commit")
        assert token == {"epoch": 0}
        self.table.visible += self.rows

    def abort(self, token: Token | None) -> None:
        self.table.calls.append(f"abort {token}")

    def close(self) -> None:
        self.table.calls.append("close")


class RecordingTable(WritableTable):
    name = "t"
    connector = "Recording"
    columns = (TableColumn("n", BIGINT),)

    def __init__(self, fails_in: str = "", cooperative: bool = False) -> None:
        self.fails_in = fails_in
        self.cooperative = cooperative
        self.calls: list[str] = []
        self.visible: list[int] = []

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset(WriteMode)

    def sink(self, request: SinkRequest) -> Sink:
        return RecordingSink(self)


REQUEST = SinkRequest(WriteMode.SINK, (0,))
BATCHES = [
    pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())}) for values in ([1, 2], [], [3])
]


def run(table: RecordingTable, **options: Any) -> None:
    verify_processor(
        lambda: WriteProcessor(table.sink(REQUEST)), [BATCHES], [(3,)], snapshots=False, **options
    )


def test_rows_are_written_committed_once_and_counted() -> None:
    table = RecordingTable()
    run(table, row_by_row=False)
    once = ["write", "write", "stage", "commit", "close"]
    runs = len(table.calls) // len(once)
    assert table.calls == once * runs
    assert table.visible == [1, 2, 3] * runs


def test_no_rows_are_committed_too() -> None:
    table = RecordingTable()
    verify_processor(
        lambda: WriteProcessor(table.sink(REQUEST)), [[]], [(0,)], snapshots=False, row_by_row=False
    )
    assert table.calls[:3] == ["stage", "commit", "close"]


@pytest.mark.parametrize(
    ("call", "token"), [("write", None), ("stage", None), ("commit", {"epoch": 0})]
)
def test_a_failure_leaves_nothing(call: str, token: Token | None) -> None:
    table = RecordingTable(fails_in=call)
    with pytest.raises(OperationalError, match=f"the disk is full in {call}"):
        run(table)
    assert table.visible == []
    assert table.calls[-2:] == [f"abort {token}", "close"]


def test_a_cancelled_statement_leaves_nothing() -> None:
    table = RecordingTable()
    processor = WriteProcessor(table.sink(REQUEST))
    processor.init(*place())
    processor.take(0, BATCHES[0])
    processor.close()
    assert table.visible == []
    assert table.calls == ["write", "abort None", "close"]


def test_a_full_outbox_after_the_commit_is_no_second_commit() -> None:
    table = RecordingTable()
    processor = WriteProcessor(table.sink(REQUEST))
    outbox, context = CollectingOutbox(room=0), place()[1]
    processor.init(outbox, context)
    assert not processor.complete()
    assert not processor.complete()
    outbox.room = 1
    assert processor.complete()
    assert table.calls == ["stage", "commit"]


def test_a_blocking_sink_makes_the_processor_uncooperative() -> None:
    assert WriteProcessor(RecordingTable(cooperative=False).sink(REQUEST)).cooperative is False
    assert WriteProcessor(RecordingTable(cooperative=True).sink(REQUEST)).cooperative is True
