"""How long rows take from the source to the end of a job: a histogram of the markers that travel
among them.

A source sends a marker every MARK_INTERVAL while it gives rows; it goes through the queues behind
the rows before it and past what operators hold back on purpose (an open window), as Flink's latency
markers do. Each bucket of the histogram is a sixteenth of a power of two wide, so a quantile is
right to about 6 % (the idea of HdrHistogram).
"""

from __future__ import annotations

from collections.abc import Iterable

MARK_INTERVAL = 100_000_000
"""Nanoseconds between two markers of a source."""

_PARTS = 16
_BUCKETS = 64 * _PARTS


class LatencyHistogram:
    """Counts durations in nanoseconds. Written by one thread; may be read by others meanwhile."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS

    def add(self, nanoseconds: int) -> None:
        self.counts[_bucket(max(nanoseconds, 0))] += 1


def quantiles(histograms: Iterable[LatencyHistogram], wanted: Iterable[float]) -> list[int | None]:
    """Of all that several histograms counted, the durations below which the wanted shares of them
    lie, in nanoseconds; None where nothing was counted."""
    parts = [item.counts for item in histograms]
    counts = [sum(column) for column in zip(*parts, strict=True)] if parts else []
    total = sum(counts)
    return [_quantile(counts, share * total) if total else None for share in wanted]


def _quantile(counts: list[int], rank: float) -> int:
    seen = 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return _upper(bucket)
    return 0


def _bucket(value: int) -> int:
    shift = max(value.bit_length() - 5, 0)
    return min(shift * _PARTS + (value >> shift), _BUCKETS - 1)


def _upper(bucket: int) -> int:
    """The largest value in a bucket."""
    if bucket < 2 * _PARTS:
        return bucket
    shift = bucket // _PARTS - 1
    return ((bucket - shift * _PARTS + 1) << shift) - 1
