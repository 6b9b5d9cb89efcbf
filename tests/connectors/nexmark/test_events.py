"""NEXMark events: the specification's proportions and ids, the same events whatever the cuts,
order, speed and places."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.columns.batches import numbers
from runnel.connector import (
    BATCH_ROWS,
    ColumnDefinition,
    End,
    MappingDefinition,
    Pause,
    ScanRequest,
    SourcePartition,
)
from runnel.connectors.nexmark.connector import NexmarkConnector, NexmarkTable
from runnel.connectors.nexmark.random_numbers import draws, low_below, prices
from runnel.errors import Error, OperationalError, ProgrammingError
from runnel.processor import JobContext
from runnel.sqltypes import BIGINT, TIMESTAMP, VARCHAR
from runnel.testing import ManualClock
from tests.connectors.conformance import (
    OptionsConformance,
    job_context,
    read_batches,
    read_rows,
    visible,
)

START = datetime(2015, 7, 15)
MILLISECOND = 1_000_000


def table(kind: str = "bid", **options: Any) -> NexmarkTable:
    given = {"table": kind, **{name: str(value) for name, value in options.items()}}
    found = NexmarkConnector().open(MappingDefinition("events", (), given))
    assert isinstance(found, NexmarkTable)
    return found


def partitions(
    found: NexmarkTable, clock: Callable[[], int] | None = None
) -> list[SourcePartition]:
    context = job_context()
    if clock is not None:
        context = JobContext(1, context.evaluation, clock, context.results)
    return list(found.scan(ScanRequest(visible(found))).split(context))


def available(partition: SourcePartition) -> list[dict[str, Any]]:
    """What can be read before a pause or the end."""
    rows: list[dict[str, Any]] = []
    while isinstance(item := partition.read(), pa.RecordBatch):
        rows.extend(item.to_pylist())
    return rows


class TestOptions(OptionsConformance):
    known_option = "jitterMillis"

    def connector(self, path: Path) -> NexmarkConnector:
        return NexmarkConnector()

    def definition(self, path: Path) -> MappingDefinition:
        columns = (
            ColumnDefinition("who", BIGINT, "bidder"),
            ColumnDefinition("date_time", TIMESTAMP),
        )
        return MappingDefinition("bids", columns, {"table": "bid", "jitterMillis": "5"})

    @pytest.mark.parametrize(
        ("column", "said"),
        [
            (ColumnDefinition("bider", BIGINT), 'did you mean "bidder"'),
            (ColumnDefinition("bidder", VARCHAR), "declare bidder BIGINT"),
        ],
    )
    def test_columns_that_are_not_there(
        self, tmp_path: Path, column: ColumnDefinition, said: str
    ) -> None:
        with pytest.raises(ProgrammingError) as caught:
            NexmarkConnector().open(replace(self.definition(tmp_path), columns=(column,)))
        assert said in (caught.value.hint or "")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"table": "seller"},
            {"table": "bid", "rate": "0"},
            {"table": "bid", "startTime": "yesterday"},
            {},
        ],
    )
    def test_wrong_values(self, wrong: dict[str, str]) -> None:
        with pytest.raises(Error) as caught:
            NexmarkConnector().open(MappingDefinition("bids", (), wrong))
        assert caught.value.hint


def test_columns_under_names_of_ones_own() -> None:
    definition = TestOptions().definition(Path())
    found = NexmarkConnector().open(replace(definition, options={"table": "bid", "events": "60"}))
    assert isinstance(found, NexmarkTable)
    (batch,) = read_batches(found)
    assert batch.schema.names == ["who", "date_time"]
    assert batch.num_rows == 46 + 6


@pytest.mark.parametrize("events", [0, 1, 2, 4, 5, 49, 50, 51, 99, 1234])
def test_of_fifty_events_one_is_a_person_and_three_are_auctions(events: int) -> None:
    expected = {
        "person": sum(1 for i in range(events) if i % 50 == 0),
        "auction": sum(1 for i in range(events) if 1 <= i % 50 <= 3),
        "bid": sum(1 for i in range(events) if i % 50 >= 4),
        "event": events,
    }
    for kind, count in expected.items():
        for parts in (1, 3):
            found = table(kind, events=events, partitions=parts)
            assert found.row_count() == count
            assert sum(batch.num_rows for batch in read_batches(found)) == count


def test_ids_and_times_are_those_of_the_specification() -> None:
    """Each event against the generator's rules for one event, written out."""
    events = read_rows(table("event", events=20_000))
    for number, (event_type, person, auction, bid, time) in enumerate(events):
        epoch, offset = divmod(number, 50)
        assert [person is not None, auction is not None, bid is not None].index(True) == event_type
        assert time == START + timedelta(milliseconds=number // 10)
        people, first_active = epoch + 1, max(0, epoch + 1 - 1000)
        if offset == 0:
            assert (person["id"], person["date_time"]) == (1000 + epoch, time)
        elif offset <= 3:
            assert (auction["id"], auction["date_time"]) == (1000 + 3 * epoch + offset - 1, time)
            assert (
                auction["seller"] - 1000 == epoch // 100 * 100
                or first_active <= auction["seller"] - 1000 < people + 10
            )
            assert 10 <= auction["category"] < 15
            assert auction["reserve"] > auction["initial_bid"] >= 100
            assert timedelta(0) < auction["expires"] - time <= timedelta(milliseconds=2 * 167)
        else:
            last = 3 * epoch + 2
            assert (
                bid["auction"] - 1000 == last // 100 * 100
                or max(0, last - 100) <= bid["auction"] - 1000 <= last + 10
            )
            assert (
                bid["bidder"] - 1000 == epoch // 100 * 100 + 1
                or first_active <= bid["bidder"] - 1000 < people + 10
            )
            assert 100 <= bid["price"] < 10**8


def test_shares_and_sizes_are_those_of_the_specification() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        for kind in ("bid", "auction", "person"):
            cursor.execute(
                f"CREATE MAPPING {kind} TYPE Nexmark OPTIONS ('table' = '{kind}', "
                "'events' = '250000')"
            )
        (shares,) = cursor.execute("""
            SELECT COUNT(*) FILTER (WHERE channel IN ('Google', 'Facebook', 'Baidu',
                   'Apple')) / 230000.0,
                   COUNT(*) FILTER (WHERE auction % 100 = 0) / 230000.0,
                   COUNT(*) FILTER (WHERE bidder % 100 = 1) / 230000.0,
                   COUNT(*) FILTER (WHERE url LIKE '%&channel_id=%') / 230000.0,
                   AVG(LENGTH(extra)) / 68, AVG(LN(price / 100.0)) / LN(10) / 3
            FROM bid""").fetchall()
        assert [float(share) for share in shares] == pytest.approx(
            [0.5, 0.505, 0.7525, 0.45, 1, 1], abs=0.01
        )
        (sizes,) = cursor.execute("""
            SELECT AVG(8 + LENGTH(item_name) + LENGTH(description) + 40 + LENGTH(extra)) / 500,
                   COUNT(*) FILTER (WHERE seller % 100 = 0) / 15000.0, MIN(LENGTH(description)),
                   MAX(LENGTH(item_name)),
                   COUNT(*) FILTER (WHERE item_name <> TRIM(item_name) OR description <>
                       TRIM(description))
            FROM auction""").fetchall()
        assert [float(size) for size in sizes] == pytest.approx([1, 0.7525, 3, 19, 0], abs=0.01)
        (people,) = cursor.execute("""
            SELECT AVG(8 + LENGTH(name || email_address || credit_card || city || state || extra))
                   / 200,
                   COUNT(DISTINCT name), COUNT(DISTINCT city), COUNT(DISTINCT state)
            FROM person""").fetchall()
        assert [float(value) for value in people] == pytest.approx([1, 99, 10, 6], abs=0.02)


def test_texts_have_the_form_that_the_queries_look_for() -> None:
    for auction in read_rows(table("auction", events=2_000), [1, 2]):
        assert all(re.fullmatch("[a-z][a-z ]+[a-z]", text) for text in auction)
    for address, card in read_rows(table("person", events=20_000), [2, 3]):
        assert re.fullmatch("[a-z]{3,6}@[a-z]{3,4}[.]com", address)
        assert re.fullmatch("[0-9]{4}( [0-9]{4}){3}", card)
    for channel, url in read_rows(table("bid", events=20_000), [3, 4]):
        assert re.fullmatch(
            "https://www.nexmark.com(/[a-z_]{3,4}){3}/item.htm[?]query=1(&channel_id=[0-9]+)?", url
        )
        of_url = url.partition("&channel_id=")[2]
        assert not of_url or channel == f"channel-{of_url}"
        assert channel in ("Google", "Facebook", "Baidu", "Apple") or re.fullmatch(
            "channel-[0-9]+", channel
        )


def test_the_same_events_whatever_the_partitions_and_the_seed_decides() -> None:
    one = read_rows(table("bid", events=5_000))
    assert sorted(read_rows(table("bid", events=5_000, partitions=3))) == sorted(one)
    assert read_rows(table("bid", events=5_000)) == one
    assert read_rows(table("bid", events=5_000, seed=2)) != one
    of_events = read_rows(table("event", events=5_000))
    assert [tuple(bid.values()) for *_, bid, _ in of_events if bid is not None] == one


def test_draws_do_not_change_between_releases() -> None:
    """Whoever kept results of a seeded run must be able to compare them."""
    assert draws(np.arange(3), 1, 0).tolist() == FIRST_DRAWS
    assert prices(np.array([0, 1 << 31, (1 << 32) - 1], np.uint64)).tolist() == [
        100,
        100_000,
        99_999_999,
    ]


FIRST_DRAWS = [12100477452831230990, 12793040940332582595, 17925934194126948328]


def test_numbers_below_a_bound_reach_all_of_it() -> None:
    found = low_below(draws(np.arange(10_000), 1, 0), 7)
    assert np.bincount(found).min() > 1_200
    assert len(np.bincount(found)) == 7


@pytest.mark.parametrize("parts", [1, 4])
def test_jitter_brings_the_same_events_in_another_order(parts: int) -> None:
    calm = read_rows(table("bid", events=40_000))
    jittery = table("bid", events=40_000, jitterMillis=200, partitions=parts)
    rows = read_rows(jittery)
    assert rows != calm
    assert sorted(rows) == sorted(calm)
    for part in partitions(jittery):
        greatest, disorder = START, timedelta(0)
        for row in available(part):
            greatest = max(greatest, row["date_time"])
            disorder = max(disorder, greatest - row["date_time"])
        assert timedelta(milliseconds=100) < disorder <= timedelta(milliseconds=200)


def test_event_time_has_a_rate_and_a_start_of_its_own() -> None:
    rows = read_rows(table("bid", events=100, eventRate=1, startTime="2000-01-01T00:00:00+02:00"))
    assert rows[0][5] == datetime(1999, 12, 31, 22, 0, 4)
    assert rows[-1][5] == datetime(1999, 12, 31, 22, 1, 39)


def test_without_a_number_of_events_it_is_a_stream() -> None:
    stream = table("bid")
    assert (stream.is_unbounded, stream.can_end, stream.row_count()) == (True, False, None)
    at_rest = table("bid", events=100)
    assert (at_rest.is_unbounded, at_rest.can_end) == (False, True)
    stream_that_ends = table("bid", events=100, stream="true")
    assert (
        stream_that_ends.is_unbounded,
        stream_that_ends.can_end,
        stream_that_ends.row_count(),
    ) == (True, True, 92)
    batch = partitions(stream)[0].read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows <= BATCH_ROWS


def test_event_time_needs_no_declaration() -> None:
    assert table("bid", jitterMillis=250).event_time == EventTime(5, 250_000)
    definition = TestOptions().definition(Path())
    assert NexmarkConnector().open(definition).event_time == EventTime(1, 5_000)
    assert (
        NexmarkConnector().open(replace(definition, columns=definition.columns[:1])).event_time
        is None
    )
    slow = table("bid", events=5_000, eventRate=3, jitterMillis=250)
    assert [row[5] for row in read_rows(slow)] == sorted(row[5] for row in read_rows(slow)), (
        "no event fits in the jitter"
    )


def test_a_query_on_the_stream_ends_by_a_limit() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE MAPPING auctions TYPE Nexmark OPTIONS ('table' = 'auction')")
        ids = cursor.execute("SELECT id FROM auctions LIMIT 100000").fetchall()
    assert ids == [(1000 + i,) for i in range(100_000)]


def test_a_rate_is_kept_by_the_jobs_clock() -> None:
    clock = ManualClock()
    (part,) = partitions(table("event", rate=100, events=120), clock.monotonic)
    assert [row["event_type"] for row in available(part)] == [0]
    pause = part.read()
    assert isinstance(pause, Pause)
    assert pause.until == 10 * MILLISECOND, "the next one is due after a hundredth of a second"
    clock.advance(9 * MILLISECOND)
    assert available(part) == []
    clock.advance(1 * MILLISECOND)
    assert [row["event_type"] for row in available(part)] == [1]
    clock.advance(1_000 * MILLISECOND)
    assert len(available(part)) == 100, "it catches up"
    clock.advance(10_000 * MILLISECOND)
    assert len(available(part)) == 18
    assert isinstance(part.read(), End)


def test_between_two_people_a_rate_lets_the_reader_sleep() -> None:
    clock = ManualClock()
    (part,) = partitions(table("person", rate=100), clock.monotonic)
    assert len(available(part)) == 1
    pause = part.read()
    assert isinstance(pause, Pause)
    assert pause.until == 500 * MILLISECOND, "when the next person is due, not the next event"


def test_partitions_share_a_rate() -> None:
    clock = ManualClock()
    parts = partitions(table("event", rate=1_000, partitions=4), clock.monotonic)
    clock.advance(1_000 * MILLISECOND - 1)
    assert [len(available(part)) for part in parts] == [250] * 4
    clock.advance(1)
    assert [len(available(part)) for part in parts] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"jitterMillis": 300},
        {"partitions": 3},
        {"partitions": 2, "jitterMillis": 50, "rate": 200_000},
    ],
)
def test_reading_goes_on_from_any_position(options: dict[str, Any]) -> None:
    found = table("bid", events=20_000, **options)
    clock = ManualClock()
    for index, part in enumerate(partitions(found, clock.monotonic)):
        batches: list[pa.RecordBatch] = []
        positions = [part.position()]
        clock.advance(3 * MILLISECOND)
        while not isinstance(item := part.read(), End):
            if isinstance(item, Pause):
                clock.advance(3 * MILLISECOND)
            else:
                batches.append(item)
                positions.append(part.position())
        everything = pa.Table.from_batches(batches)
        for count in (0, 1, len(batches) // 2, len(batches)):
            other = partitions(found, clock.monotonic)[index]
            other.seek(positions[count] or {})
            clock.advance(10_000 * MILLISECOND)
            rest = available(other)
            skipped = sum(batch.num_rows for batch in batches[:count])
            assert rest == everything.slice(skipped).to_pylist()


def test_a_position_of_another_division_is_refused() -> None:
    (part,) = partitions(table("bid"))
    other = partitions(table("bid", partitions=2))[1]
    with pytest.raises(OperationalError, match=r"partition 1 of 2 .* partition 0 of 1"):
        other.seek(part.position() or {})


def test_a_rate_goes_on_where_it_was() -> None:
    clock = ManualClock()
    found = table("event", rate=100)
    (part,) = partitions(found, clock.monotonic)
    clock.advance(5_000 * MILLISECOND)
    assert len(available(part)) == 501
    clock.advance(60_000 * MILLISECOND)
    (other,) = partitions(found, clock.monotonic)
    other.seek(part.position() or {})
    assert len(available(other)) == 1, "no time has passed for it"
    clock.advance(100 * MILLISECOND)
    assert len(available(other)) == 10


def test_columns_alone_are_what_they_are_together() -> None:
    found = table("auction", events=2_000)
    (whole,) = read_batches(found)
    for place, name in enumerate(whole.schema.names):
        (alone,) = read_batches(found, [place])
        assert alone.column(0).equals(whole.column(place)), name
    assert numbers(whole.column(0), np.int64).tolist() == list(range(1000, 1120))
