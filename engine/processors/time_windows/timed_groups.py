"""Groups that end: held by the time at which each is complete, so that those which are can be taken
without touching the rest.

A group is due when one of its bounded keys can't occur any more. Rows are collapsed to partial
states as in `group_state`; each partial is kept as a run, sorted by the time at which its groups
are due. A watermark takes the front of each run. Runs are merged when the new ones have as many
groups as the first, so that a group is seldom in many of them, and a merge is paid for by the rows
that came since the last. Where memory has no room for the runs, they go to files
(`spilled_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.columns.batches import MAX_ROWS, indexes, join_arrays, make_batch
from runnel.columns.key_hash import RUN_METADATA, SAVER_METADATA
from runnel.processors.grouping.group_state import (
    GroupLayout,
    GroupState,
    Partial,
    appended,
    partial_of,
)
from runnel.processors.grouping.row_identity import factorise
from runnel.processors.panes.due_times import NEVER, DueTimes
from runnel.processors.panes.open_panes import open_panes
from runnel.processors.time_windows.spilled_groups import SpilledGroups
from runnel.processors.time_windows.timed_runs import TimedRun, sorted_run, with_keys
from runnel.storage.memory_budget import Memory, size_of

if TYPE_CHECKING:
    from runnel.processors.time_windows.spilled_groups import SpilledGroups

BUFFERED_ROWS = 1 << 17
"""How many rows are buffered before they are collapsed, at least."""

PANE_ROWS = 4
"""The multiple of BUFFERED_ROWS that is accumulated in panes before their groups are counted."""

ROWS_PER_GROUP = 2
"""How many rows are buffered per group of the last collapse."""

EAGER_ROWS = 1 << 13
"""From so many buffered rows on they are collapsed when there is nothing else to do, so that little
is left to a watermark. A batch of this size is accumulated in panes, where that can be done."""

EAGER_ROWS_PER_GROUP = 8
"""The same per group of the last collapse: with fewer, collapsing saves nothing."""

FEW_RUNS = 4
"""So many runs that aren't larger than twice the last one are then merged."""

MERGED_ROWS = 1 << 16
"""How many groups in new runs are gathered before runs are merged, at least."""

MOST_RUNS = 64
"""With more runs than these they are merged, however few groups they have."""

DENSE_SHARE = 0.5
"""A run of which less than this share is left is copied, so that the memory of the rest is given
back."""

ROWS_PER_SAVED_GROUP = 8
"""Rows are collapsed for a snapshot where groups have at least so many of them. Where they have
fewer, that would save few bytes, and the same groups come again soon: they would have to be put
together more often."""

_ROWS_METADATA = b"runnel.state.rows"
"""The metadata of a batch of state that has rows, not groups."""


class TimedGroups:
    """The open groups of one processor. `check` is called with their number whenever it may have
    grown."""

    notes_changes = False
    """Whether it remembers the keys of groups that were added or changed."""

    saver = ""
    """The number of the processor and how many there are, as in "0/2"."""

    divided_from = 0
    """The first of the keys by which groups are divided when they are put into files."""

    def __init__(
        self,
        layout: GroupLayout,
        due: DueTimes,
        check: Callable[[int], None],
        use_threads: bool = False,
    ) -> None:
        self.layout = layout
        self._due = due
        self._check = check
        self._use_threads = use_threads
        self._whole = GroupState(layout, check, use_threads)
        self._panes = open_panes(layout, due)
        self._looked_at_rows = PANE_ROWS * BUFFERED_ROWS
        self._rows: list[Sequence[pa.Array]] = []
        self._row_count = 0
        self._runs: list[TimedRun] = []
        self._files: SpilledGroups | None = None
        self._threshold = BUFFERED_ROWS
        self._eager = EAGER_ROWS
        self._merge_at = MERGED_ROWS
        self._share = 0.0
        self._groups_of_last: int | None = None
        self._saved_rows: list[pa.RecordBatch] = []
        self._saved_parts = 0
        self._run_numbers = count()
        self._restored: dict[bytes, list[Partial]] = {}
        self._least = [NEVER] * len(due.watermarks)
        self._changes: list[Sequence[pa.Array]] = []
        self._change_count = 0
        self._spilled_changes: TimedGroups | None = None

    def is_due(self, times: Sequence[int]) -> bool:
        """Whether a group is complete by the times of the watermarks."""
        return any(least < time for least, time in zip(self._least, times, strict=True))

    @property
    def is_empty(self) -> bool:
        is_held = self._panes is not None and not self._panes.is_empty
        return not (is_held or self._row_count or self._runs) and self._files is None

    @property
    def is_spilled(self) -> bool:
        """Whether some groups are in files."""
        return self._files is not None

    @property
    def open_groups(self) -> int:
        """How many groups are in memory, as far as rows are collapsed; one may be counted several
        times."""
        held = 0 if self._panes is None else self._panes.size[0]
        return held + sum(run.left for run in self._runs)

    @property
    def size(self) -> tuple[int, int]:
        """The rows and groups that are held, and about how many bytes they take. May be asked by
        other threads."""
        runs, rows = tuple(self._runs), tuple(self._rows)
        taken = sum(run.partial.size * run.left // max(run.partial.num_rows, 1) for run in runs)
        buffered = sum(size_of(item) for columns in rows for item in columns)
        restored = [item for parts in tuple(self._restored.values()) for item in parts]
        taken += sum(item.size for item in restored)
        rows_restored = sum(item.num_rows for item in restored)
        spilled_rows, spilled = self.spilled_size
        if self._files is not None:
            # Otherwise they are the keys of the stored groups.
            taken += sum(size_of(item) for columns in tuple(self._changes) for item in columns)
        in_panes = (0, 0) if self._panes is None else self._panes.size
        held = self._row_count + sum(run.left for run in runs) + rows_restored + in_panes[0]
        return held + spilled_rows, taken + buffered + spilled + in_panes[1]

    @property
    def spilled_size(self) -> tuple[int, int]:
        """How much of that is in files."""
        files = self._files
        return (0, 0) if files is None else files.size

    def add(self, columns: Sequence[pa.Array], num_rows: int, least: Sequence[int]) -> None:
        """Takes rows: the key columns, then the argument columns; `least` are the smallest of their
        due times."""
        if not num_rows:
            return
        panes = self._panes
        if (
            num_rows < EAGER_ROWS
            or panes is None
            or not self._add_to_panes(lambda: panes.add(columns, num_rows))
        ):
            self._rows.append(columns)
            self._row_count += num_rows
        self._least = list(map(min, self._least, least))
        if self._row_count >= self._threshold:
            self._collapse_rows()

    def _add_to_panes(self, add: Callable[[], bool]) -> bool:
        """Adds rows or groups to the panes by a function that returns whether that can be done."""
        panes = self._panes
        if panes is None:
            return False
        if not add():
            if not panes.has_keys:
                return False
            self._end_panes()
            if not add():
                return False
        rows = panes.rows
        if rows >= self._looked_at_rows:
            self._looked_at_rows = 2 * rows
            self._share = panes.size[0] / rows
            self._check(self.open_groups)
        return True

    def _end_panes(self) -> None:
        """Turns the groups of panes into runs, and forgets their keys."""
        panes = self._panes
        if panes is None or not panes.has_keys:
            return
        rows = panes.rows
        self._looked_at_rows = PANE_ROWS * BUFFERED_ROWS
        parts = panes.take_all()
        if parts:
            self._share = sum(part.num_rows for part in parts) / rows
            self.add_partial(appended(parts))

    def is_sparse(self, share: float) -> bool:
        """Whether the rows that were grouped last, if any since groups were taken, made more
        groups than this share."""
        return self._share > share

    def add_groups(self, partial: Partial) -> None:
        """Combines with groups, each at most once, in any order: in panes, where they are many and
        that can be done."""
        if partial.num_rows < EAGER_ROWS or self._panes is None:
            self.add_partial(partial)
            return
        panes, groups = self._panes, partial
        if not self._add_to_panes(lambda: panes.add_groups(groups)):
            self.add_partial(partial)
        else:
            if self.notes_changes:
                self._note(partial.keys, partial.num_rows)
            due = [int(item.min()) for item in self._due.of(partial.keys)]
            self._least = list(map(min, self._least, due))

    def add_partial(self, partial: Partial) -> None:
        """Adds a run of groups, each at most once, in any order."""
        if not partial.num_rows:
            return
        if self.notes_changes:
            self._note(partial.keys, partial.num_rows)
        self._add_run(partial)

    def restore(self, state: pa.RecordBatch) -> None:
        """Takes groups, each at most once, as `saved` gave them. What was one run will be one
        again."""
        partial = partial_of(state, self.layout)
        name = (state.schema.metadata or {}).get(RUN_METADATA)
        if name is None:
            self.add_partial(partial)
        elif partial.num_rows:
            self._restored.setdefault(name, []).append(partial)

    def end_restore(self) -> None:
        """Nothing more is restored for now."""
        runs, self._restored = list(self._restored.values()), {}
        if not runs:
            return
        # Merging them can wait until as many have come as there are.
        self._merge_at = max(
            self._merge_at,
            2 * (self.open_groups + sum(part.num_rows for parts in runs for part in parts)),
        )
        while runs:
            self.add_partial(appended(runs.pop()))

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
        """The keys of groups that changed since this was asked last, perhaps several times; nothing
        if none did."""
        self.collapse()
        found = self._changed_keys()
        self._changes, self._change_count, self._spilled_changes = [], 0, None
        return found

    def take_changes_by_parts(self) -> Iterator[list[pa.Array]]:
        """As `take_changes`, also from files: some keys at a time."""
        self.collapse()
        if self._spilled_changes is None:
            yield self.take_changes()
            return
        spilled, self._spilled_changes = self._hand_over_changes(), None
        for partial in spilled.take_by_parts(None):
            yield list(partial.keys)

    def _hand_over_changes(self) -> TimedGroups:
        """Puts the keys that are remembered to those in files."""
        if self._spilled_changes is None:
            self._spilled_changes = TimedGroups(
                GroupLayout(self.layout.key_types, (), (), ()), self._due, self._check
            )
        if self._changes:
            columns = self._changed_keys()
            self._changes, self._change_count = [], 0
            _, first = factorise(columns)
            self._spilled_changes.add_partial(
                Partial([key.take(indexes(first)) for key in columns], [], len(first))
            )
        return self._spilled_changes

    def _add_run(self, partial: Partial) -> None:
        run = sorted_run(partial, self._due.of(partial.keys))
        self._runs.append(run)
        self._least = [
            min(least, int(item.min())) for least, item in zip(self._least, run.due, strict=True)
        ]
        fresh = self.open_groups
        if len(self._runs) > 1 and (fresh >= self._merge_at or len(self._runs) > MOST_RUNS):
            self._merge()
        self._check(self.open_groups)

    def collapse(self) -> None:
        """Converts the added rows to runs of groups."""
        self._collapse_rows()
        self._end_panes()

    def _collapse_rows(self) -> None:
        """Turns the buffered rows into groups: many in panes, where that can be done, else in a
        run."""
        if not self._row_count:
            return
        rows, count = self._rows, self._row_count
        self._rows, self._row_count, self._saved_rows, self._saved_parts = [], 0, [], 0
        panes = self._panes
        if panes is not None and count >= EAGER_ROWS:
            joined = [join_arrays(parts) for parts in zip(*rows, strict=True)]
            if self._add_to_panes(lambda: panes.add(joined, count)):
                self._note_groups(panes.size[0])
                return
        partial = self._whole.collapse_rows(rows, count)
        self._share = partial.num_rows / count
        self._note_groups(partial.num_rows)
        self.add_partial(partial)

    def _note_groups(self, groups: int) -> None:
        """Derives from the number of groups when rows are collapsed again."""
        self._groups_of_last = groups
        self._threshold = max(BUFFERED_ROWS, ROWS_PER_GROUP * groups)
        self._eager = max(EAGER_ROWS, EAGER_ROWS_PER_GROUP * groups)

    def collapse_early(self) -> None:
        """There is nothing else to do: turns the buffered rows into groups if they are worth it."""
        if self._row_count < self._eager:
            return
        self._collapse_rows()
        runs = self._runs
        if not runs:
            return
        limit = 2 * runs[-1].left
        small = len(runs)
        while small and runs[small - 1].left <= limit:
            small -= 1
        if len(runs) - small >= FEW_RUNS:
            self._runs, merged = (
                runs[:small],
                self._whole.combine([run.rest() for run in runs[small:]]),
            )
            self._add_run(merged)

    def take_due(self, times: Sequence[int]) -> Partial | None:
        """The groups that are complete by the times of the watermarks, which are then forgotten;
        None for none. As long as nothing is in files."""
        assert self._files is None
        self._collapse_rows()
        parts = [part for run in self._runs for part in run.take_due(times)]
        panes = [] if self._panes is None else self._panes.take_due(times)
        self._forget()
        if panes and not parts:
            return appended(panes)
        return self.together([*parts, *panes])

    def take_all(self) -> Partial | None:
        """All groups, which are then forgotten; None for none. As long as nothing is in files."""
        assert self._files is None
        return self._take_held()

    def _take_held(self) -> Partial | None:
        """All groups that are in memory."""
        self.end_restore()
        self.collapse()
        parts = [run.rest() for run in self._runs]
        self._runs = []
        self._forget()
        return self.together(parts)

    def take_by_parts(self, times: Sequence[int] | None) -> Iterator[Partial]:
        """As `take_due`, or without times `take_all`, also from files: some groups at a time."""
        if self._files is None:
            found = self.take_all() if times is None else self.take_due(times)
            if found is not None:
                yield found
            return
        self.collapse()
        held = [
            part
            for run in self._runs
            for part in ([run.rest()] if times is None else run.take_due(times))
        ]
        self._runs = [] if times is None else [run for run in self._runs if run.left]
        yield from self._files.take(self.together(held), times)
        if self._files.is_empty:
            self._files = None
        self._forget()

    def spill(self, memory: Memory) -> None:
        """Writes the groups in memory to files."""
        self.end_restore()
        held = self._take_held()
        if self._changes:
            self._hand_over_changes().spill(memory)
        if held is None:
            return
        if self._files is None:
            self._files = SpilledGroups(
                self.layout, self._due, self._whole.combine, memory, self.divided_from
            )
        self._files.add(held)
        self._forget()

    def of(self, keys: Sequence[pa.Array]) -> Iterator[Partial]:
        """The groups whose first keys are among these, each once, some at a time; they stay."""
        self.collapse()
        held = self.together(
            [part for run in self._runs if (part := with_keys(run.rest(), keys)).num_rows]
        )
        if self._files is not None:
            yield from self._files.of(held, keys)
        elif held is not None:
            yield held

    def partials(self) -> list[Partial]:
        """All that was taken, as it lies there, and stays."""
        self.collapse()
        return [run.rest() for run in self._all_runs()]

    def saved(self, make: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All that was taken, exported, as `make` makes state of it: the very same batches for what
        is as it was the last time, so that it needn't be written again. Some may be rows
        (`is_rows`), which `add` takes again."""
        self._end_panes()
        if (
            self._groups_of_last is not None
            and self._row_count >= ROWS_PER_SAVED_GROUP * self._groups_of_last
        ):
            self.collapse()

        def named(batch: pa.RecordBatch) -> pa.RecordBatch:
            return _described(
                make(batch), self.saver, {RUN_METADATA: f"{self.saver} {next(self._run_numbers)}"}
            )

        for run in self._all_runs():
            yield from run.save(self.layout, named)
        schema = self.layout.schema_of_rows
        for columns in _in_few_parts(self._rows[self._saved_parts :]):
            batch = make(make_batch(columns, schema, len(columns[0])))
            self._saved_rows.append(_described(batch, self.saver, {_ROWS_METADATA: ""}))
        self._saved_parts = len(self._rows)
        yield from self._saved_rows

    def _all_runs(self) -> Iterator[TimedRun]:
        yield from self._runs
        if self._files is not None:
            yield from self._files.runs()

    def merged(self) -> Partial:
        """All groups, each once, which stay."""
        self.collapse()
        if len(self._runs) != 1:
            self._merge()
        return self._runs[0].rest() if self._runs else self._whole.combined()

    def forget_due(self, times: Sequence[int]) -> None:
        """Forgets the groups that are complete by the times of the watermarks."""
        if self.is_due(times):
            if self._panes is not None:
                self._panes.take_due(times)
            for run in self._runs:
                run.take_due(times)
            if self._files is not None:
                self._files.forget(times)
                if self._files.is_empty:
                    self._files = None
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
        """Releases the groups that were taken, and their memory."""
        self._share = 0.0
        self._runs = [run for run in self._runs if run.left]
        for run in self._runs:
            if run.left < DENSE_SHARE * run.partial.num_rows:
                run.keep(np.arange(run.start, run.partial.num_rows))
        known = [run.least() for run in self._runs]
        if self._panes is not None:
            known += self._panes.least()
        if self._files is not None:
            known.append(self._files.least)
        self._least = (
            [min(times) for times in zip(*known, strict=True)]
            if known
            else [NEVER] * len(self._least)
        )

    def close(self) -> None:
        self._rows, self._runs, self._row_count, self._files = [], [], 0, None
        self._panes = None
        self._saved_rows, self._saved_parts = [], 0
        self._changes, self._change_count, self._spilled_changes = [], 0, None


def is_rows(state: pa.RecordBatch) -> bool:
    """Whether a batch of state has rows, key columns and then argument columns, instead of
    groups."""
    return _ROWS_METADATA in (state.schema.metadata or {})


def _described(batch: pa.RecordBatch, saver: str, more: Mapping[bytes, str]) -> pa.RecordBatch:
    """State with more metadata, and by whom it was saved."""
    by = {SAVER_METADATA: saver} if saver else {}
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), **by, **more})


def _in_few_parts(rows: Sequence[Sequence[pa.Array]]) -> Iterator[Sequence[pa.Array]]:
    """Rows that came in many small parts in fewer."""
    parts: list[Sequence[pa.Array]] = []
    count = 0
    for columns in (*rows, None):
        if parts and (columns is None or count + len(columns[0]) > MAX_ROWS):
            yield [join_arrays(column) for column in zip(*parts, strict=True)]
            parts, count = [], 0
        if columns is not None:
            parts.append(columns)
            count += len(columns[0])
