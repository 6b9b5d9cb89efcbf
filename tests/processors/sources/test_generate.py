"""GENERATE_SERIES and GENERATE_STREAM."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.errors import DataError
from runnel.expressions.nodes import Literal
from runnel.processors.sources.generate import STREAM_ROWS, generate
from runnel.sqltypes import BIGINT
from runnel.testing import ManualClock, verify_processor
from tests.processors.places import CollectingOutbox, Wakes, job_context, place

SECOND = 1_000_000_000


def supplier_of(function: str, *arguments: int | None) -> Any:
    return generate(function, tuple(Literal(value=item, type=BIGINT) for item in arguments), ("v",))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, 5), [1, 2, 3, 4, 5]),
        ((1, 5, 2), [1, 3, 5]),
        ((5, 1, -2), [5, 3, 1]),
        ((1, 6, 2), [1, 3, 5]),
        ((5, 1), []),
        ((1, 5, -1), []),
        ((3, 3, 100), [3]),
        ((2**63 - 2, 2**63 - 1), [2**63 - 2, 2**63 - 1]),
        ((-(2**63), 2**63 - 1, 2**63 - 1), [-(2**63), -1, 2**63 - 2]),
        ((2**63 - 1, 2**63 - 1, 2**63 - 1), [2**63 - 1]),
    ],
)
def test_series(arguments: tuple[int, ...], expected: list[int]) -> None:
    verify_processor(
        supplier_of("generate_series", *arguments), [], [(v,) for v in expected], snapshots=False
    )


def test_a_long_series_is_made_as_it_is_read() -> None:
    processor = supplier_of("generate_series", 1, 10**15)()
    outbox, context = place()
    processor.init(outbox, context)
    assert not processor.complete()
    batches = outbox.items
    assert 1 <= len(batches) <= 100, "a call ends even where the outbox takes everything"
    assert outbox.values == list(range(1, len(outbox.values) + 1))
    assert max(batch.num_rows for batch in batches) == 65_536


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 5, 0), "step of GENERATE_SERIES cannot be equal to zero"),
        ((None, 5), "argument of GENERATE_SERIES is null"),
    ],
)
def test_bad_series(arguments: tuple[int | None, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        supplier_of("generate_series", *arguments)().init(*place())


def test_a_stream_keeps_to_its_rate() -> None:
    clock = ManualClock()
    processor = supplier_of("generate_stream", 10)()
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic), wakes)
    processor.init(outbox, context)
    assert not processor.complete()
    assert outbox.values == []
    assert wakes.times == [SECOND // 10]
    for expected in range(1, 30):
        clock.advance_to(wakes.times[-1])
        assert not processor.complete()
        assert outbox.values == list(range(expected))


def test_a_stream_that_is_behind_catches_up_in_batches() -> None:
    clock = ManualClock()
    processor = supplier_of("generate_stream", 100_000)()
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic), wakes)
    processor.init(outbox, context)
    processor.complete()
    clock.advance(SECOND)
    calls = 0
    while len(outbox.values) < 100_000:
        assert not processor.complete()
        calls += 1
    assert outbox.values == list(range(100_000))
    assert max(batch.num_rows for batch in outbox.items) == STREAM_ROWS
    assert 1 < calls < 20
    assert wakes.count >= calls - 1


def test_a_fast_stream_sleeps_at_least_a_millisecond() -> None:
    clock = ManualClock()
    processor = supplier_of("generate_stream", 10_000_000)()
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic), wakes)
    processor.init(outbox, context)
    processor.complete()
    assert wakes.times == [1_000_000]


def test_a_stream_stops_at_a_full_outbox() -> None:
    clock = ManualClock()
    processor = supplier_of("generate_stream", 10_000)()
    outbox, context = CollectingOutbox(room=1), place(job_context(clock.monotonic))[1]
    processor.init(outbox, context)
    processor.complete()
    clock.advance(SECOND)
    assert not processor.complete()
    assert not processor.complete()
    outbox.room = None
    while len(outbox.values) < 10_000:
        assert not processor.complete()
    assert outbox.values == list(range(10_000))


def test_a_stream_goes_on_from_a_snapshot() -> None:
    clock = ManualClock()
    processor = supplier_of("generate_stream", 10)()
    outbox, context = place(job_context(clock.monotonic))
    processor.init(outbox, context)
    processor.complete()
    clock.advance(3 * SECOND)
    processor.complete()
    assert outbox.values == list(range(30))
    (state,) = processor.state()  # type: ignore[attr-defined]
    clock.advance(60 * SECOND)
    restored = supplier_of("generate_stream", 10)()
    wakes = Wakes()
    outbox, context = place(job_context(clock.monotonic), wakes)
    restored.init(outbox, context)
    restored.restore_snapshot(state)
    assert restored.finish_restore()
    assert not restored.complete()
    assert outbox.values == [], "no time has passed for it"
    clock.advance_to(wakes.times[-1])
    restored.complete()
    assert outbox.values == [30]


def test_only_one_processor_of_a_stream_works() -> None:
    processor = supplier_of("generate_stream", 10)()
    processor.init(*place(index=1, parallelism=2))
    assert processor.complete()


def test_bad_rates() -> None:
    with pytest.raises(DataError, match="rate of GENERATE_STREAM cannot be negative"):
        supplier_of("generate_stream", -1)().init(*place())
    with pytest.raises(DataError, match="argument of GENERATE_STREAM is null"):
        supplier_of("generate_stream", None)().init(*place())


def test_a_rate_of_zero_gives_nothing_and_wakes_nobody() -> None:
    wakes = Wakes()
    processor = supplier_of("generate_stream", 0)()
    outbox, context = place(wakes=wakes)
    processor.init(outbox, context)
    assert not processor.complete()
    assert (outbox.items, wakes.times, wakes.count) == ([], [], 0)
