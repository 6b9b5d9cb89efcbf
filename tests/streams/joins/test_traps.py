"""What joins of streams have gone wrong at elsewhere: each trap with a test of its name. And what
state they keep."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.processor import Processor, Watermark
from runnel.processors.joins.join import JoinShape, join
from runnel.processors.stream_joins import as_of_join
from runnel.relation.nodes import JoinKind
from runnel.relation.stream_joins import AsOfShape
from runnel.relation.streams import TimeBound
from runnel.snapshots.store import share_of
from runnel.storage.memory_budget import Memory
from runnel.testing.bench import BenchInbox
from tests.processors.places import CollectingOutbox, job_context, place
from tests.processors.random_tables import columns_of, fields_of
from tests.processors.stream_joins.test_as_of_join import joined as as_of
from tests.processors.stream_joins.test_interval_join import LEFT_TIME, RIGHT_TIME, joined

LEFT, RIGHT = 0, 1


def rows(prefix: str, *values: tuple[int | None, int | None]) -> pa.Table:
    """Rows of a key and a time, numbered."""
    return pa.table(
        {
            f"{prefix}i": pa.array([key for key, _ in values], pa.int64()),
            f"{prefix}s": pa.array([None] * len(values), pa.string()),
            f"{prefix}t": pa.array([time for _, time in values], pa.int64()),
            f"{prefix}v": pa.array(range(len(values)), pa.int64()),
        }
    )


class Running:
    """A processor in the middle of its work."""

    def __init__(self, make: Any) -> None:
        self.processor: Processor = make()
        outbox, context = place()
        self.outbox: CollectingOutbox = outbox
        self.processor.init(outbox, context)  # type: ignore[arg-type]

    def give(self, side: int, *values: tuple[int | None, int | None]) -> None:
        inbox = BenchInbox(rows("lr"[side], *values).to_batches())
        while inbox:
            self.processor.process(side, inbox)
        while not self.processor.flush():
            pass

    def watermark(self, number: int, time: int) -> None:
        while not self.processor.process_watermark(Watermark(time, number)):
            pass

    def end(self, side: int) -> None:
        while not self.processor.complete_edge(side):
            pass

    def taken(self) -> list[Any]:
        """The key and time of both sides of what came out since the last time, and the
        watermarks."""
        found: list[Any] = []
        for item in self.outbox.items:
            if isinstance(item, pa.RecordBatch):
                names = [name for name in item.schema.names if name[1] in "it"]
                found += [tuple(row[name] for name in names) for row in item.to_pylist()]
            else:
                found.append(item)
        self.outbox.items.clear()
        return found

    @property
    def state(self) -> int:
        """How many rows a snapshot would have, but for the watermarks."""
        batches: Sequence[pa.RecordBatch] = list(self.processor.state())  # type: ignore[attr-defined]
        return sum(batch.num_rows for batch in batches if batch.schema.names[0] != "$watermark")


def running(kind: JoinKind, low: int | None = -5, high: int | None = 5) -> Running:
    return Running(joined(kind, "i", (low, high), None, rows("l"), rows("r")))


def test_one_global_watermark_for_two_inputs() -> None:
    """The left input is far ahead; what the right one still brings finds its rows nevertheless."""
    join = running(JoinKind.LEFT)
    join.give(LEFT, (1, 10), (1, 1000))
    join.watermark(LEFT_TIME, 1000)
    assert join.taken() == [Watermark(10, LEFT_TIME)]
    join.give(RIGHT, (1, 12))
    assert join.taken() == [(1, 10, 1, 12)]
    join.watermark(RIGHT_TIME, 900)
    assert join.taken() == [Watermark(1000, LEFT_TIME), Watermark(900, RIGHT_TIME)]


@pytest.mark.parametrize(
    ("kind", "expected"), [(JoinKind.SEMI, [(1, 10)]), (JoinKind.ANTI, [(2, 11)])]
)
def test_semi_and_anti_joins_run_as_inner(kind: JoinKind, expected: list[Any]) -> None:
    join = running(kind)
    join.give(LEFT, (1, 10), (2, 11))
    join.give(RIGHT, (1, 9), (1, 10), (1, 11))
    join.watermark(LEFT_TIME, 50)
    join.watermark(RIGHT_TIME, 50)
    assert [item for item in join.taken() if not isinstance(item, Watermark)] == expected


def test_null_keys_and_times_that_join() -> None:
    join = running(JoinKind.FULL)
    join.give(LEFT, (None, 10), (1, None))
    join.give(RIGHT, (None, 10), (1, None))
    assert sorted(join.taken(), key=str) == sorted(
        [
            (None, 10, None, None),
            (1, None, None, None),
            (None, None, None, 10),
            (None, None, 1, None),
        ],
        key=str,
    )
    assert join.state == 0, "they would wait for nothing"


def test_rows_go_when_nothing_can_match_them_any_more() -> None:
    join = running(JoinKind.INNER)
    for start in range(0, 1_500, 10):
        join.give(LEFT, *((1 + n % 3, start + n) for n in range(10)))
        join.give(RIGHT, *((1 + n % 3, start + n) for n in range(10)))
        join.watermark(LEFT_TIME, start)
        join.watermark(RIGHT_TIME, start)
        assert join.state <= 2 * (10 + 5)
        held = join.processor.state_size()[0]
        assert held <= 2 * (10 + 5)
    assert sum(buffer.row_count for buffer in join.processor.inputs.buffers) <= 100, (
        "rows that are gone take no memory"
    )


def test_a_row_that_waits_holds_back_its_own_watermark_only() -> None:
    join = running(JoinKind.LEFT, 0, 10)
    join.give(LEFT, (1, 100))
    join.watermark(LEFT_TIME, 200)
    join.give(RIGHT, (7, 300))
    join.watermark(RIGHT_TIME, 90)
    assert join.taken() == [Watermark(100, LEFT_TIME), Watermark(90, RIGHT_TIME)]
    join.watermark(RIGHT_TIME, 110)
    assert join.taken() == [Watermark(110, RIGHT_TIME)]
    join.watermark(RIGHT_TIME, 111)
    assert join.taken() == [
        (1, 100, None, None),
        Watermark(200, LEFT_TIME),
        Watermark(111, RIGHT_TIME),
    ]


def test_a_late_row_is_counted_and_comes_out_alone() -> None:
    join = running(JoinKind.LEFT)
    join.give(RIGHT, (1, 10))
    join.watermark(LEFT_TIME, 16)
    join.watermark(RIGHT_TIME, 40)
    join.taken()
    join.give(LEFT, (1, 10))
    assert join.taken() == [(1, 10, None, None)]
    assert join.processor.late_rows == 1
    assert join.state == 0


def test_the_end_of_one_input_lets_the_other_go_on() -> None:
    join = running(JoinKind.LEFT)
    join.give(LEFT, (1, 10), (2, 20))
    join.end(RIGHT)
    assert join.taken()[:2] == [(1, 10, None, None), (2, 20, None, None)]
    join.give(LEFT, (1, 30))
    assert join.taken() == [(1, 30, None, None)]
    join.watermark(LEFT_TIME, 40)
    assert join.taken() == [Watermark(40, LEFT_TIME)]
    assert join.state == 0


def test_temporal_tables_never_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each key one version stays that is older than the left watermark, whatever their
    number."""
    monkeypatch.setattr(as_of_join, "PRUNED_FROM", 50)
    shape = AsOfShape(
        outer=True,
        strict=False,
        forward=False,
        version=TimeBound(RIGHT_TIME),
        due=TimeBound(LEFT_TIME),
        bounds=((2, TimeBound(LEFT_TIME)),),
    )
    join = Running(as_of(shape, "i", rows("l"), rows("r")))
    for start in range(0, 10_000, 20):
        join.give(RIGHT, *((n % 4, start + n) for n in range(20)))
        join.watermark(RIGHT_TIME, start)
        join.watermark(LEFT_TIME, start)
        assert join.state <= 100
    join.taken()
    join.give(LEFT, (2, 9_980), (3, 9_999))
    assert join.taken() == []
    join.watermark(RIGHT_TIME, 9_999)
    assert join.taken() == [(2, 9_980, 2, 9_978)]
    join.watermark(RIGHT_TIME, 10_000)
    assert join.taken() == [(3, 9_999, 3, 9_999)]


def test_a_late_row_of_an_as_of_join_has_no_version() -> None:
    shape = AsOfShape(
        outer=True,
        strict=False,
        forward=False,
        version=TimeBound(RIGHT_TIME),
        due=TimeBound(LEFT_TIME),
        bounds=((2, TimeBound(LEFT_TIME)),),
    )
    join = Running(as_of(shape, "i", rows("l"), rows("r")))
    join.give(RIGHT, (1, 5))
    join.watermark(RIGHT_TIME, 100)
    join.watermark(LEFT_TIME, 50)
    join.taken()
    join.give(LEFT, (1, 49), (1, 50))
    assert join.taken() == [(1, 49, None, None), (1, 50, 1, 5)]
    assert join.processor.late_rows == 1


def test_an_idle_input_goes_along_with_the_other() -> None:
    join = running(JoinKind.LEFT)
    join.processor.idle_inputs = {RIGHT}
    join.give(LEFT, (1, 10), (2, 20))
    join.watermark(LEFT_TIME, 18)
    assert join.taken() == [
        (1, 10, None, None),
        Watermark(18, LEFT_TIME),
        Watermark(18, RIGHT_TIME),
    ]
    join.processor.idle_inputs = frozenset()
    join.give(RIGHT, (2, 17), (1, 12))
    assert join.taken() == [(2, 20, 2, 17)]
    assert join.processor.late_rows == 2
    join.watermark(RIGHT_TIME, 15)
    join.watermark(LEFT_TIME, 100)
    assert join.taken() == [Watermark(20, LEFT_TIME)]
    join.watermark(RIGHT_TIME, 40)
    assert join.taken() == [Watermark(100, LEFT_TIME), Watermark(40, RIGHT_TIME)]


def test_a_stream_without_rows_holds_nothing_back() -> None:
    """Rows of the left stream come out alone though the right one, which could still end their
    wait, never gives a row."""
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    stop = threading.Event()
    with runnel.connect() as connection:
        busy = connection.register_stream("busy", schema, time_column="n")
        quiet = connection.register_stream(
            "quiet", schema, time_column="n", idle_timeout=timedelta(milliseconds=1)
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT busy.n, quiet.n FROM busy LEFT JOIN quiet ON busy.k = quiet.k AND busy.n = "
                "quiet.n"
            )

            def write() -> None:
                for number in range(1_000_000):
                    if stop.is_set():
                        break
                    busy.write([(1, number)])
                busy.close()

            thread = threading.Thread(target=write)
            thread.start()
            first = cursor.fetchone()
            was_over = not thread.is_alive()
            stop.set()
            thread.join()
        quiet.close()
    assert first is not None and first[1] is None
    assert not was_over, "it came at the end only"


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.FULL])
def test_state_divides_by_key_among_other_processors(kind: JoinKind) -> None:
    one = running(kind)
    one.give(LEFT, *((n % 5, n) for n in range(20)))
    one.give(RIGHT, (1, 0), (2, 100))
    one.taken()
    state = list(one.processor.state())
    several = [running(kind) for _ in range(3)]
    for number, other in enumerate(several):
        for batch in state:
            other.processor.restore_snapshot(share_of(batch, number, 3))
        other.processor.finish_restore()
    assert sum(other.state for other in several) == one.state == 22
    assert sorted(other.state for other in several) != [0, 0, 22]
    for other in (one, *several):
        other.end(LEFT)
        other.end(RIGHT)
    found, wanted = [row for other in several for row in other.taken()], one.taken()
    rows_found, rows_wanted = (
        [row for row in given if isinstance(row, tuple)] for given in (found, wanted)
    )
    assert sorted(rows_found, key=str) == sorted(rows_wanted, key=str)
    assert bool(rows_wanted) is (kind is JoinKind.FULL)


def test_a_table_that_a_stream_is_joined_with_stays_in_memory() -> None:
    """In files it would keep the rows of the stream there too, until the end that there is not."""
    memory = Memory(limit=1 << 22)
    memory.reserve(1 << 22)
    build, probe = rows("r", *((n, n) for n in range(10_000))), rows("l", (7, 1), (20_000, 2))
    left, right = columns_of(probe), columns_of(build)
    names = (*probe.schema.names, *build.schema.names)
    make = join(
        JoinShape(JoinKind.INNER),
        ((left["li"],), (right["ri"],)),
        (fields_of(probe), fields_of(build)),
        names,
    )
    processor = make()
    outbox, context = place(job_context(memory=memory, is_unbounded=True))
    processor.init(outbox, context)
    for side, table in enumerate((build, probe)):
        inbox = BenchInbox(table.to_batches())
        while inbox:
            processor.process(side, inbox)
        while side == 0 and not processor.complete_edge(0):
            pass
    while not processor.flush():
        pass
    assert outbox.values == [7]
    processor.close()


@pytest.mark.parametrize("sign", ["<=", ">="])
def test_versions_of_a_table_are_all_kept(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a table nothing is forgotten: rows of the stream may be as late as they like, and be
    joined forward."""
    monkeypatch.setattr(as_of_join, "PRUNED_FROM", 3)
    schema = {"t": "BIGINT"}
    with runnel.connect() as connection:
        connection.register("versions", pa.table({"at": pa.array(range(0, 100, 10), pa.int64())}))
        stream = connection.register_stream("s", schema, time_column="t")
        cursor = connection.cursor()
        cursor.execute(f"SELECT s.t, v.at FROM s ASOF LEFT JOIN versions v ON s.t {sign} v.at")
        found = []
        for time in (50, 60, 40, 70):
            stream.write([(time,)])
            found.append(cursor.fetchone())
        assert found == [(time, time) for time in (50, 60, 40, 70)]
        cursor.close()
