"""Latency markers: the histogram, and how they travel."""

from __future__ import annotations

import random

import pytest

from runnel.dag import DAG, between
from runnel.expressions.context import EvaluationContext
from runnel.processor import Inbox, JobContext, LatencyMarker, Processor
from runnel.runtime.execution import Execution, ExecutionOptions
from runnel.runtime.latency import MARK_INTERVAL, LatencyHistogram, quantiles
from runnel.runtime.template import Template
from runnel.testing import ManualClock
from tests.runtime.sample_processors import Pass, numbers


def test_quantiles_are_right_to_a_sixteenth() -> None:
    dice = random.Random(3)
    values = sorted(dice.randrange(10 ** dice.randrange(1, 11)) for _ in range(5_000))
    histograms = [LatencyHistogram(), LatencyHistogram()]
    for place, value in enumerate(values):
        histograms[place % 2].add(value)
    for share in (0.01, 0.5, 0.9, 0.99, 0.999):
        (found,) = quantiles(histograms, [share])
        exact = values[min(int(share * len(values)), len(values) - 1)]
        assert found is not None
        assert exact * 0.93 - 1 <= found <= exact * 1.07 + 1


def test_nothing_counted_and_extremes() -> None:
    assert quantiles([], [0.5]) == [None]
    assert quantiles([LatencyHistogram()], [0.5, 0.99]) == [None, None]
    histogram = LatencyHistogram()
    histogram.add(-5)
    histogram.add(1 << 62)
    assert quantiles([histogram], [0.4]) == [0]
    (most,) = quantiles([histogram], [1.0])
    assert most is not None and most >= 1 << 62


class Endless(Processor):
    """Gives one batch at each call, and wants to be called again."""

    def complete(self) -> bool:
        self.outbox.offer(numbers(1))
        self.context.wake()
        return False


class Sink(Processor):
    def process(self, ordinal: int, inbox: Inbox) -> None:
        while inbox.poll() is not None:
            pass


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("is_unbounded", [True, False])
def test_a_marker_goes_one_way_and_tells_how_long_it_took(
    parallelism: int, is_unbounded: bool
) -> None:
    dag = DAG()
    source, middle, end = (
        dag.vertex("source", Endless, 1),
        dag.vertex("middle", Pass, parallelism),
        dag.vertex("end", Sink, 1),
    )
    dag.edge(between(source, middle).partitioned("x")).edge(between(middle, end))
    clock = ManualClock(1)
    job = JobContext(1, EvaluationContext(), clock.monotonic, is_unbounded=is_unbounded)
    execution = Execution(Template.of(dag), job, ExecutionOptions(capacity=2), lambda error: None)

    class Owner:
        def ready(self, tasklet: object) -> None:
            """Everything is called in turn below."""

        def wake_at(self, tasklet: object, time: int) -> None:
            """Likewise."""

    for tasklet in execution.tasklets:
        tasklet.owner = Owner()
    for step in range(300):
        for tasklet in execution.tasklets:
            tasklet.call()
            clock.advance(1_000_000)
        if step == 150:
            clock.advance(MARK_INTERVAL)
    histograms = [tasklet.latency for tasklet in execution.tasklets if tasklet.latency is not None]
    if not is_unbounded:
        assert histograms == []
        return
    (histogram,) = histograms
    assert 6 <= sum(histogram.counts) <= 14, (
        "one for each tenth of a second, however many processors there are"
    )
    (half,) = quantiles(histograms, [0.5])
    assert half is not None and 1_000_000 <= half <= MARK_INTERVAL
    execution.cancel()


def test_markers_are_values() -> None:
    assert LatencyMarker(5) == LatencyMarker(5)
