"""Which rows of a stream must be late for windows, row by row and in Python: what the operators are
held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runnel.connector import EventTimeMark
from tests.streams.random_queries.late_queries import Account, LateQuery
from tests.streams.random_queries.random_feeds import DAY, Feed, unit_of

NEVER = -(1 << 70)
CONDITIONS = {
    None: lambda row: True,
    "v > 0 OR v IS NULL": lambda row: row["v"] is None or row["v"] > 0,
    "b IS DISTINCT FROM TRUE": lambda row: row["b"] is not True,
    "id % 3 > 0": lambda row: row["id"] % 3 > 0,
}


def late_rows(feed: Feed, query: LateQuery) -> list[int] | None:
    """The ids of the rows that are late for a query over one stream; None where that depends on the
    order in which partitions are read, or on more than the windows."""
    if len(feed.scripts) != 1 or query.window is None or query.account is Account.LAST:
        return None
    kind, size, step, keys = query.window
    unit = unit_of(feed.kind)
    if kind == "SESSION":
        return _late_for_sessions(feed, query, size * unit, keys)
    late = set()
    for rows, watermark in _batches(feed, query.condition):
        for time, row in rows:
            if time is not None and any(
                end <= watermark for end in _ends(kind, size * unit, step * unit, time)
            ):
                late.add(row["id"])
    return sorted(late)


def _ends(kind: str, size: int, step: int, time: int) -> Iterator[int]:
    """The ends of the windows that an event is in."""
    if kind == "CUMULATE":
        start = time // size * size
        yield from (end for end in range(start + step, start + size + 1, step) if time < end)
        return
    start = time // step * step
    while start + size > time:
        yield start + size
        start -= step


@dataclass
class _Key:
    """The open sessions of a key, and the last event of those that were emitted."""

    open: list[list[int]] = field(default_factory=list)
    ended: int = NEVER


def _late_for_sessions(
    feed: Feed, query: LateQuery, gap: int, keys: tuple[str, ...]
) -> list[int] | None:
    """None where an open session is continued backwards: that depends on what has been
    forgotten."""
    known: dict[Any, _Key] = {}
    late: list[int] = []
    for rows, watermark in _batches(feed, query.condition):
        for of in known.values():
            over = [span for span in of.open if span[1] + gap < watermark]
            of.open = [span for span in of.open if span not in over]
            of.ended = max([of.ended, *(span[1] for span in over)])
        by_key: dict[Any, list[tuple[int, int]]] = {}
        for time, row in rows:
            if time is not None:
                by_key.setdefault(tuple(row[key] for key in keys), []).append((time, row["id"]))
        for key, events in by_key.items():
            found = _taken(known.setdefault(key, _Key()), sorted(events), gap, watermark)
            if any(time + gap < watermark and number not in found for time, number in events):
                return None
            late += found
    return sorted(late)


def _taken(of: _Key, events: list[tuple[int, int]], gap: int, watermark: int) -> list[int]:
    """Takes in the events of a key; returns the ids of those that are late."""
    late = [number for time, number in events if time <= of.ended + gap]
    spans: list[tuple[list[int], list[int]]] = [(span, []) for span in of.open]
    spans += [([time, time], [number]) for time, number in events if time > of.ended + gap]
    opened = len(of.open)
    joined: list[tuple[list[int], list[int], bool]] = []
    for span, numbers, is_open in sorted((*span, at < opened) for at, span in enumerate(spans)):
        if joined and span[0] <= joined[-1][0][1] + gap:
            before, others, was_open = joined.pop()
            joined.append(
                ([before[0], max(before[1], span[1])], others + numbers, was_open or is_open)
            )
        else:
            joined.append((list(span), numbers, is_open))
    of.open = []
    for span, numbers, is_open in joined:
        if not is_open and span[1] + gap < watermark:
            late += numbers
        else:
            of.open.append(span)
    return late


def _batches(
    feed: Feed, condition: str | None
) -> Iterator[tuple[list[tuple[int | None, dict[str, Any]]], int]]:
    """The rows of each batch, with their event times, that a query wants, and the watermark before
    it."""
    watermark, greatest = NEVER, NEVER
    scale = DAY if feed.kind == "date" else 1
    for entry in feed.scripts[0]:
        if isinstance(entry, EventTimeMark):
            watermark = max(watermark, entry.time)
        elif isinstance(entry, pa.RecordBatch):
            column = entry.column(0).cast(pa.int32()) if feed.kind == "date" else entry.column(0)
            times = [
                None if time is None else time * scale
                for time in column.cast(pa.int64()).to_pylist()
            ]
            rows = list(zip(times, entry.to_pylist(), strict=True))
            yield [(time, row) for time, row in rows if CONDITIONS[condition](row)], watermark
            greatest = max([greatest, *(time for time in times if time is not None)])
            if greatest > NEVER:
                watermark = max(watermark, greatest - feed.lag)
