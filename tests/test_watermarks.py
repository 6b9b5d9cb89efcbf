"""Coalescing watermarks."""

from __future__ import annotations

import pytest

from runnel.errors import InternalError
from runnel.processor import IDLE, Watermark
from runnel.watermarks import WatermarkCoalescer


def coalescer(count: int) -> WatermarkCoalescer:
    return WatermarkCoalescer(count, "edge 0")


def test_minimum_of_all_inputs() -> None:
    two = coalescer(2)
    assert two.observe(0, Watermark(10)) == []
    assert two.watermark_holder(0) == 1
    assert two.observe(1, Watermark(4)) == [Watermark(4)]
    assert two.observe(1, Watermark(20)) == [Watermark(10)]
    assert two.watermark_holder(0) == 0
    assert two.observe(0, Watermark(11)) == [Watermark(11)]


def test_same_minimum_is_not_repeated() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(5))
    assert two.observe(1, Watermark(5)) == [Watermark(5)]
    assert two.observe(1, Watermark(6)) == []


def test_times_of_one_input_must_increase() -> None:
    one = coalescer(1)
    assert one.observe(0, Watermark(5)) == [Watermark(5)]
    with pytest.raises(InternalError, match="the watermark of edge 0, input 0, went from 5 to 5"):
        one.observe(0, Watermark(5))


def test_time_columns_are_apart() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(5, 0))
    two.observe(0, Watermark(7, 1))
    assert two.observe(1, Watermark(3, 1)) == [Watermark(3, 1)]
    assert two.least_column() == 0, "of which nothing was promised yet"


def test_idle_input_is_left_out_and_comes_back() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(10))
    assert two.idle(1) == [Watermark(10)]
    assert two.observe(0, Watermark(20)) == [Watermark(20)]
    assert two.observe(1, Watermark(15)) == [], "a promise is not taken back"
    assert two.observe(0, Watermark(30)) == []
    assert two.observe(1, Watermark(25)) == [Watermark(25)]


def test_batches_end_idleness() -> None:
    two = coalescer(2)
    two.idle(1)
    two.active(1)
    assert two.observe(0, Watermark(10)) == []


def test_all_idle_passes_on_the_largest_promise_and_idleness_once() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(10))
    two.observe(1, Watermark(4))
    assert two.idle(1) == [Watermark(10)]
    assert two.idle(0) == [IDLE]
    assert two.idle(0) == []
    assert two.watermark_holder(0) is None
    two.active(0)
    assert two.idle(0) == [IDLE]


def test_all_idle_with_the_slower_one_last() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(10))
    two.observe(1, Watermark(4))
    assert two.idle(0) == []
    assert two.idle(1) == [Watermark(10), IDLE]


def test_ended_inputs_are_left_out() -> None:
    three = coalescer(3)
    three.observe(0, Watermark(10))
    three.observe(1, Watermark(4))
    assert three.done(2) == [Watermark(4)]
    assert three.done(1) == [Watermark(10)]
    assert three.done(0) == []


def test_idle_and_ended_together() -> None:
    two = coalescer(2)
    two.observe(0, Watermark(10))
    assert two.done(0) == []
    assert two.idle(1) == [Watermark(10), IDLE]
