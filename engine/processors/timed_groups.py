"""Groups that end: held by the time at which each is complete, so that those which are can be taken without touching the rest.

A group is due when one of its bounded keys can't occur any more. Rows are collapsed to partial states as in `group_state`; each
partial is kept as a run, sorted by the time at which its groups are due. A watermark takes the front of each run. Runs
are merged when the new ones have as many groups as the first, so that a group is seldom in many of them, and a merge is
paid for by the rows that came since the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.batches import Indexes, Mask, indexes, join_arrays, numbers, repeated, slices, validity
from runnel.memory import size_of
from runnel.processors.event_time import event_times, less
from runnel.processors.group_state import GroupState, Layout, Partial
from runnel.processors.row_identity import factorise
from runnel.streams import TimeBound

NEVER = 2**63 - 1
"""When groups are due whose bounded keys are NULL: at the end of the input."""

BUFFERED_ROWS = 1 << 17
"""How many rows are buffered before they are collapsed, at least."""

ROWS_PER_GROUP = 2
"""How many rows are buffered per group of the last collapse."""

EAGER_ROWS = 1 << 13
"""From so many buffered rows on they are collapsed when there is nothing else to do, so that little is left to a watermark."""

EAGER_ROWS_PER_GROUP = 8
"""The same per group of the last collapse: with fewer, collapsing saves nothing."""

FEW_RUNS = 4
"""So many runs that aren't larger than twice the last one are then merged."""

MERGED_ROWS = 1 << 16
"""How many groups in new runs are gathered before runs are merged, at least."""

MOST_RUNS = 64
"""With more runs than these they are merged, however few groups they have."""

DENSE_SHARE = 0.5
"""A run of which less than this share is left is copied, so that the memory of the rest is given back."""


class DueTimes:
    """When groups are due, by their keys: for each watermark the smallest of value − offset over the keys that it bounds.
    A group is complete when one of its due times is below the watermark's time."""

    def __init__(self, bounds: Sequence[tuple[int, TimeBound]]) -> None:
        self.watermarks = tuple(sorted({bound.watermark for _, bound in bounds}))
        self._keys = [[(key, bound.offset) for key, bound in bounds if bound.watermark == w] for w in self.watermarks]
        self.bounded_keys = frozenset(key for key, _ in bounds)

    def least(self, keys: Sequence[pa.Array]) -> list[int]:
        """For each watermark the smallest due time among rows."""
        return [min(_least(keys[key]) - offset for key, offset in bounded) for bounded in self._keys]

    def of(self, keys: Sequence[pa.Array]) -> list[Indexes]:
        """For each watermark the due times of rows."""
        found = []
        for bounded in self._keys:
            due = None
            for key, offset in bounded:
                one = _times(keys[key], offset)
                due = one if due is None else np.minimum(due, one)
            assert due is not None
            found.append(due)
        return found


def _least(column: pa.Array) -> int:
    times = event_times(column)
    if not len(times) or times.null_count == len(times):
        return NEVER
    if times.null_count:
        return int(pc.min(times).as_py())
    return int(numbers(times, np.int64).min())


def _times(column: pa.Array, offset: int) -> Indexes:
    times = event_times(column)
    due = less(numbers(times, np.int64), offset)
    valid = validity(times)
    return due if valid is None else np.where(valid, due, NEVER)


@dataclass(slots=True)
class _Run:
    """Groups in the order of their due times by the first watermark; those before `start` were taken."""

    partial: Partial
    due: list[Indexes]
    start: int = 0
    saved: tuple[int, list[pa.RecordBatch]] | None = None
    """What it was saved as, and where it began then."""

    @property
    def left(self) -> int:
        return self.partial.num_rows - self.start

    def rest(self) -> Partial:
        return self.partial.slice(self.start, self.left) if self.start else self.partial

    def keep(self, rows: Indexes) -> None:
        """Leaves only some rows."""
        self.partial = self.partial.take(indexes(rows))
        self.due = [due[rows] for due in self.due]
        self.start = 0
        self.saved = None


class TimedGroups:
    """The open groups of one processor. `check` is called with their number whenever it may have grown."""

    notes_changes = False
    """Whether it remembers the keys of groups that were added or changed."""

    def __init__(self, layout: Layout, due: DueTimes, check: Callable[[int], None], use_threads: bool = False) -> None:
        self.layout = layout
        self._due = due
        self._check = check
        self._use_threads = use_threads
        self._whole = GroupState(layout, check, use_threads)
        self._rows: list[Sequence[pa.Array]] = []
        self._row_count = 0
        self._runs: list[_Run] = []
        self._threshold = BUFFERED_ROWS
        self._eager = EAGER_ROWS
        self._merge_at = MERGED_ROWS
        self._share = 0.0
        self._least = [NEVER] * len(due.watermarks)
        self._changes: list[Sequence[pa.Array]] = []
        self._change_count = 0

    def is_due(self, times: Sequence[int]) -> bool:
        """Whether a group is complete by the times of the watermarks."""
        return any(least < time for least, time in zip(self._least, times, strict=True))

    @property
    def is_empty(self) -> bool:
        return not self._row_count and not self._runs

    @property
    def open_groups(self) -> int:
        """How many groups are held, as far as rows are collapsed; one may be counted several times."""
        return sum(run.left for run in self._runs)

    @property
    def size(self) -> tuple[int, int]:
        """The rows and groups that are held, and about how many bytes they take. May be asked by other threads."""
        runs, rows = tuple(self._runs), tuple(self._rows)
        taken = sum(run.partial.size * run.left // max(run.partial.num_rows, 1) for run in runs)
        buffered = sum(size_of(item) for columns in rows for item in columns)
        return self._row_count + sum(run.left for run in runs), taken + buffered

    def add(self, columns: Sequence[pa.Array], num_rows: int, least: Sequence[int]) -> None:
        """Takes rows: the key columns, then the argument columns; `least` are the smallest of their due times."""
        if not num_rows:
            return
        self._rows.append(columns)
        self._row_count += num_rows
        self._least = list(map(min, self._least, least))
        if self._row_count >= self._threshold:
            self.collapse()

    def is_sparse(self, share: float) -> bool:
        """Whether the rows that were collapsed last, if any since groups were taken, made more groups than this share."""
        return self._share > share

    def add_partial(self, partial: Partial) -> None:
        """Takes groups, each at most once, in any order."""
        if not partial.num_rows:
            return
        if self.notes_changes:
            self._note(partial.keys, partial.num_rows)
        self._add_run(partial)

    def _note(self, keys: Sequence[pa.Array], count: int) -> None:
        """Remembers keys, each once where there are many."""
        self._changes.append(keys)
        self._change_count += count
        if len(self._changes) > 1 and self._change_count > max(MERGED_ROWS, 2 * self.open_groups):
            columns = self._changed_keys()
            _, first = factorise(columns)
            self._changes = [[column.take(indexes(first)) for column in columns]]
            self._change_count = len(first)

    def _changed_keys(self) -> list[pa.Array]:
        return [join_arrays(columns) for columns in zip(*self._changes, strict=True)]

    def take_changes(self) -> list[pa.Array]:
        """The keys of groups that changed since this was asked last, perhaps several times; nothing if none did."""
        self.collapse()
        found = self._changed_keys()
        self._changes, self._change_count = [], 0
        return found

    def _add_run(self, partial: Partial) -> None:
        due = self._due.of(partial.keys)
        first = due[0]
        if len(first) > 1 and (first[1:] < first[:-1]).any():
            order = np.argsort(first, kind="stable")
            partial = partial.take(indexes(order))
            due = [item[order] for item in due]
        self._runs.append(_Run(partial, due))
        self._least = [min(least, int(item.min())) for least, item in zip(self._least, due, strict=True)]
        fresh = self.open_groups
        if len(self._runs) > 1 and (fresh >= self._merge_at or len(self._runs) > MOST_RUNS):
            self._merge()
        self._check(self.open_groups)

    def collapse(self) -> None:
        """Turns the buffered rows into groups."""
        if not self._row_count:
            return
        rows, count = self._rows, self._row_count
        self._rows, self._row_count = [], 0
        partial = self._collapsed(rows, count)
        self._share = partial.num_rows / count
        self._threshold = max(BUFFERED_ROWS, ROWS_PER_GROUP * partial.num_rows)
        self._eager = max(EAGER_ROWS, EAGER_ROWS_PER_GROUP * partial.num_rows)
        self.add_partial(partial)

    def collapse_early(self) -> None:
        """There is nothing else to do: turns the buffered rows into groups if they are worth it."""
        if self._row_count < self._eager:
            return
        self.collapse()
        runs = self._runs
        limit = 2 * runs[-1].left
        small = len(runs)
        while small and runs[small - 1].left <= limit:
            small -= 1
        if len(runs) - small >= FEW_RUNS:
            self._runs, merged = runs[:small], self._whole.combine([run.rest() for run in runs[small:]])
            self._add_run(merged)

    def _collapsed(self, rows: list[Sequence[pa.Array]], count: int) -> Partial:
        """Bounded keys that have one value, as they mostly do in so few rows, needn't be grouped by."""
        layout = self.layout
        width = len(layout.key_types)
        constant = [key for key in sorted(self._due.bounded_keys) if is_constant([columns[key] for columns in rows])]
        if not constant:
            return self._whole.collapse_rows(rows, count)
        kept = [key for key in range(width) if key not in constant]
        narrow = Layout(tuple(layout.key_types[key] for key in kept), layout.argument_types, layout.states, layout.arguments)
        narrow_rows = [[*(columns[key] for key in kept), *columns[width:]] for columns in rows]
        if not narrow_rows[0]:
            return self._whole.collapse_rows(rows, count)
        partial = GroupState(narrow, self._check, self._use_threads).collapse_rows(narrow_rows, count)
        found = dict(zip(kept, partial.keys, strict=True))
        keys = [found[key] if key in found else repeated(rows[0][key][0], partial.num_rows) for key in range(width)]
        return Partial(keys, partial.columns, partial.num_rows)

    def take_due(self, times: Sequence[int]) -> Partial | None:
        """The groups that are complete by the times of the watermarks, which are then forgotten; None for none."""
        self.collapse()
        parts = [part for run in self._runs for part in _taken(run, times)]
        self._forget()
        return self.together(parts)

    def take_all(self) -> Partial | None:
        """All groups, which are then forgotten; None for none."""
        self.collapse()
        parts = [run.rest() for run in self._runs]
        self._runs = []
        self._forget()
        return self.together(parts)

    def partials(self) -> list[Partial]:
        """All that was taken, as it lies there, and stays."""
        self.collapse()
        return [run.rest() for run in self._runs]

    def saved(self, make: Callable[[Partial], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All that was taken, as `make` puts it into batches: the very same ones for what is as it was the last time, so that
        it needn't be written again."""
        self.collapse()
        for run in self._runs:
            if run.saved is None or run.saved[0] != run.start:
                run.saved = run.start, list(slices(make(run.rest())))
            yield from run.saved[1]

    def merged(self) -> Partial:
        """All groups, each once, which stay."""
        self.collapse()
        if len(self._runs) != 1:
            self._merge()
        return self._runs[0].rest() if self._runs else self._whole.combined()

    def forget_due(self, times: Sequence[int]) -> None:
        """Forgets the groups that are complete by the times of the watermarks."""
        if self.is_due(times):
            for run in self._runs:
                _taken(run, times)
            self._forget()

    def together(self, parts: Sequence[Partial]) -> Partial | None:
        """Parts as one, each group once; None for none."""
        if not parts:
            return None
        return self._whole.combine(parts) if len(parts) > 1 else parts[0]

    def _merge(self) -> None:
        parts = [run.rest() for run in self._runs]
        self._runs = []
        if not parts:
            return
        merged = self._whole.combine(parts)
        self._merge_at = max(MERGED_ROWS, 2 * merged.num_rows)
        self._add_run(merged)

    def _forget(self) -> None:
        """Lets go of what was taken, also of its memory."""
        self._share = 0.0
        self._runs = [run for run in self._runs if run.left]
        for run in self._runs:
            if run.left < DENSE_SHARE * run.partial.num_rows:
                run.keep(np.arange(run.start, run.partial.num_rows))
        first = min((int(run.due[0][run.start]) for run in self._runs), default=NEVER)
        more = [
            min((int(run.due[i][run.start :].min()) for run in self._runs), default=NEVER) for i in range(1, len(self._least))
        ]
        self._least = [first, *more]

    def close(self) -> None:
        self._rows, self._runs, self._row_count = [], [], 0
        self._changes, self._change_count = [], 0


def with_keys(partial: Partial, keys: Sequence[pa.Array]) -> Partial:
    """The states whose first keys are among these."""
    both = [join_arrays([mine, other]) for mine, other in zip(partial.keys, keys, strict=False)]
    codes, _ = factorise(both)
    wanted = np.isin(codes[: partial.num_rows], codes[partial.num_rows :])
    return partial.take(indexes(np.flatnonzero(wanted)))


def is_constant(parts: Sequence[pa.Array]) -> bool:
    """Whether all values of an integer-like column in parts are one and the same, and not NULL."""
    first: int | None = None
    for part in parts:
        if part.null_count:
            return False
        values = numbers(event_times(part), np.int64)
        if first is None:
            first = int(values[0])
        if values[-1] != first or values[0] != first or (values != first).any():
            return False
    return first is not None


def _taken(run: _Run, times: Sequence[int]) -> list[Partial]:
    """What is complete of a run, which then doesn't have it any more."""
    parts = []
    end = int(np.searchsorted(run.due[0], times[0]))
    if end > run.start:
        parts.append(run.partial.slice(run.start, end - run.start))
        run.start = end
    if len(times) > 1 and run.left:
        complete: Mask = np.zeros(run.left, np.bool_)
        for due, time in zip(run.due[1:], times[1:], strict=True):
            complete |= due[run.start :] < time
        if complete.any():
            parts.append(run.partial.take(indexes(run.start + np.flatnonzero(complete))))
            run.keep(run.start + np.flatnonzero(~complete))
    return parts
