"""The latency from the sources to the end of a job: a histogram of markers that travel among the
rows.

A source sends a marker every MARK_INTERVAL while it emits rows. Like Flink's latency markers it
moves through the queues after the rows before it, but passes rows that operators buffer on purpose
(an open window). Each bucket of the histogram is a sixteenth of a power of two wide, so a quantile
is accurate to about 6 % (the idea of HdrHistogram).

For example, the durations 7, 1000 and 1001 ns: 7 is in bucket 7; values below 32 have buckets of
their own. 1000 has 10 bits, so it is shifted by 5 to 31, in bucket 5 * 16 + 31 = 111, which ends at
1023; 1001 is in the same bucket. The median of the three is reported as 1023.
"""

from __future__ import annotations

from collections.abc import Iterable

MARK_INTERVAL = 100_000_000
"""Nanoseconds between two markers of a source."""

_SUBDIVISIONS = 16
_BUCKETS = 64 * _SUBDIVISIONS


class LatencyHistogram:
    """Counts durations in nanoseconds. Written by one thread; other threads may read it
    meanwhile."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS

    def add(self, nanoseconds: int) -> None:
        self.counts[_bucket(max(nanoseconds, 0))] += 1


def quantiles(histograms: Iterable[LatencyHistogram], shares: Iterable[float]) -> list[int | None]:
    """The quantiles of all durations counted by several histograms, in nanoseconds; None if nothing
    was counted."""
    columns = [item.counts for item in histograms]
    counts = [sum(column) for column in zip(*columns, strict=True)] if columns else []
    total = sum(counts)
    return [_quantile(counts, share * total) if total else None for share in shares]


def _quantile(counts: list[int], rank: float) -> int:
    below = 0
    for bucket, count in enumerate(counts):
        below += count
        if count and below >= rank:
            return _upper(bucket)
    return 0


def _bucket(value: int) -> int:
    shift = max(value.bit_length() - 5, 0)
    return min(shift * _SUBDIVISIONS + (value >> shift), _BUCKETS - 1)


def _upper(bucket: int) -> int:
    """The largest value in a bucket."""
    if bucket < 2 * _SUBDIVISIONS:
        return bucket
    shift = bucket // _SUBDIVISIONS - 1
    return ((bucket - shift * _SUBDIVISIONS + 1) << shift) - 1
