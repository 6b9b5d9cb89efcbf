"""The groups of `timed_groups` that memory has no room for: in files, divided by the hash of their
keys.

They are a tree. A leaf is a list of runs, as in memory, but mapped from files: what a watermark
completes is a slice of each. So a group can be in several runs of a leaf, and what one leaf has is
combined at once. Runs of like size are merged; a leaf that is too large to be combined in memory
gets leaves of its own, by the next bits of the hash. What comes to an inner node waits there, in
runs too, until it is worth being divided: otherwise each spill would write a small file for each
leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, indexes, numbers
from runnel.columns.key_hash import Hashes, hash_columns
from runnel.processors.grouping.group_state import (
    WEIGHT,
    GroupLayout,
    Partial,
    exported,
    partial_of,
)
from runnel.processors.panes.due_times import NEVER, DueTimes
from runnel.processors.time_windows.timed_runs import TimedRun, sorted_run, with_keys
from runnel.storage.memory_budget import LEAST_BYTES, Memory, too_large

if TYPE_CHECKING:
    import numpy.typing as npt

BITS = 2
COUNT = 1 << BITS
"""How many nodes there are below an inner one: few, so that a leaf doesn't become much smaller than
it may be."""

DEEPEST = 16
"""How often groups may be divided, from the highest bits of the hash down: the lowest decide which
processor has a group."""

FEW_RUNS = 4
"""So many runs that aren't larger than twice the last one are then merged; and so many times what
is combined at once waits in an inner node."""


class SpilledGroups:
    """Groups whose keys' hashes begin alike, in the first `level` steps. `combine` makes one of
    several partials; the keys from `divided_from` on are hashed (all, where there are no such)."""

    def __init__(
        self,
        layout: GroupLayout,
        due: DueTimes,
        combine: Callable[[Sequence[Partial]], Partial],
        memory: Memory,
        divided_from: int = 0,
        level: int = 0,
    ) -> None:
        self._layout = layout
        self._due = due
        self._combine = combine
        self._memory = memory
        self._divided_from = divided_from if divided_from < len(layout.key_types) else 0
        self._level = level
        self._runs: list[TimedRun] = []
        self._parts: list[SpilledGroups] = []
        self._is_divisible = level < DEEPEST
        self.least = [NEVER] * len(due.watermarks)
        """For each watermark the smallest due time."""

    @property
    def is_empty(self) -> bool:
        return not self._runs and all(part.is_empty for part in self._parts)

    def runs(self) -> Iterator[TimedRun]:
        """All groups. May be asked by other threads."""
        yield from tuple(self._runs)
        for part in tuple(self._parts):
            yield from part.runs()

    @property
    def size(self) -> tuple[int, int]:
        """How many groups there are, those in several runs counted several times, and how many
        bytes they take in files."""
        found = [(run.left, run.partial.num_rows, run.file_bytes) for run in self.runs()]
        return sum(left for left, _, _ in found), sum(
            size * left // max(count, 1) for left, count, size in found
        )

    def add(self, partial: Partial) -> None:
        """Takes groups, each at most once."""
        self._write(sorted_run(partial, self._due.of(partial.keys)))
        if self._parts:
            if sum(run.file_bytes for run in self._runs) > FEW_RUNS * self._most_bytes:
                self._hand_down()
        else:
            self._tidy()
        self._note()

    def _write(self, run: TimedRun) -> None:
        """Puts a run into a file."""
        batch = exported(run.partial, self._layout)
        times = [from_numbers(due, pa.int64()) for due in run.due]
        names = [*batch.schema.names, *(f"due{i}" for i in range(len(times)))]
        written = self._memory.mapped(
            pa.RecordBatch.from_arrays([*batch.columns, *times], names=names)
        )
        width = batch.num_columns
        kept = pa.RecordBatch.from_arrays(written.columns[:width], schema=batch.schema)
        due = [numbers(column, np.int64) for column in written.columns[width:]]
        self._runs.append(
            TimedRun(partial_of(kept, self._layout), due, batch=kept, file_bytes=written.nbytes)
        )

    @property
    def _most_bytes(self) -> int:
        """What may be combined at once."""
        return max(LEAST_BYTES, self._memory.allowed // WEIGHT)

    def _tidy(self) -> None:
        """Merges runs, or divides them."""
        runs = self._runs
        if (
            self._is_divisible
            and len(runs) > 1
            and sum(run.file_bytes for run in runs) > self._most_bytes
        ):
            self._divide()
            return
        small = len(runs)
        while small and runs[small - 1].left <= 2 * runs[-1].left:
            small -= 1
        if (
            len(runs) - small >= FEW_RUNS
            and sum(run.file_bytes for run in runs[small:]) <= self._most_bytes
        ):
            self._runs, merged = runs[:small], self._combine([run.rest() for run in runs[small:]])
            self._write(sorted_run(merged, self._due.of(merged.keys)))

    def _divide(self) -> None:
        hashes = [self._hashes(run.partial) for run in self._runs]
        if all((item == hashes[0][0]).all() for item in hashes):
            self._is_divisible = False
            return
        level = self._level + 1
        shape = self._layout, self._due, self._combine, self._memory, self._divided_from
        self._parts = [SpilledGroups(*shape, level) for _ in range(COUNT)]
        self._hand_down()

    def _hashes(self, partial: Partial) -> Hashes:
        return hash_columns(partial.keys[self._divided_from :])

    def _hand_down(self) -> None:
        """Gives all that waits here to the nodes below."""
        runs, self._runs = [run.rest() for run in self._runs], []
        places = [self._places(run) for run in runs]
        for number, part in enumerate(self._parts):
            chosen = [
                (run, np.flatnonzero(here == number))
                for run, here in zip(runs, places, strict=True)
            ]
            pieces = [run.take(indexes(rows)) for run, rows in chosen if len(rows)]
            if pieces:
                part.add(self._combine(pieces) if len(pieces) > 1 else pieces[0])

    def _places(self, partial: Partial) -> npt.NDArray[np.uint8]:
        """The number of the node below that each group belongs to."""
        shift = np.uint64(64 - BITS * (self._level + 1))
        return (self._hashes(partial) >> shift).astype(np.uint8) & np.uint8(COUNT - 1)

    def take(self, held: Partial | None, times: Sequence[int] | None) -> Iterator[Partial]:
        """The groups that are complete by the times of the watermarks (None: all), together with
        `held`, which are complete too: some groups at a time. They are then forgotten."""
        if self._parts:
            self._hand_down()
            places = None if held is None else self._places(held)
            for number, part in enumerate(self._parts):
                groups = None
                if held is not None and places is not None and (places == number).any():
                    groups = held.take(indexes(np.flatnonzero(places == number)))
                if groups is not None or part.is_due(times):
                    yield from part.take(groups, times)
        else:
            parts = self._take_here(times)
            self._check_size(parts)
            if held is not None:
                parts.append(held)
            if parts:
                yield self._combine(parts) if len(parts) > 1 else parts[0]
        self._note()

    def of(self, held: Partial | None, keys: Sequence[pa.Array]) -> Iterator[Partial]:
        """The groups whose first keys are among these, together with `held`, which are such groups,
        too: some at a time. They stay."""
        if not self._parts:
            parts = [found for run in self._runs if (found := with_keys(run.rest(), keys)).num_rows]
            self._check_size(parts)
            if held is not None:
                parts.append(held)
            if parts:
                yield self._combine(parts) if len(parts) > 1 else parts[0]
            return
        self._hand_down()
        held_at = None if held is None else self._places(held)
        # Without all keys nothing says where groups are.
        is_placed = len(keys) == len(self._layout.key_types)
        keys_at = self._places(Partial(list(keys), [], len(keys[0]))) if is_placed else None
        for number, part in enumerate(self._parts):
            sought = keys
            if keys_at is not None:
                here = indexes(np.flatnonzero(keys_at == number))
                sought = [key.take(here) for key in keys]
            if len(sought[0]):
                chosen = (
                    np.flatnonzero(held_at == number)
                    if held_at is not None
                    else np.zeros(0, np.int64)
                )
                yield from part.of(
                    held.take(indexes(chosen)) if held is not None and len(chosen) else None, sought
                )
        self._note()

    def is_due(self, times: Sequence[int] | None) -> bool:
        """Whether some group is complete."""
        if times is None:
            return not self.is_empty
        return any(least < time for least, time in zip(self.least, times, strict=True))

    def _take_here(self, times: Sequence[int] | None) -> list[Partial]:
        runs, self._runs = self._runs, []
        if times is None:
            return [run.rest() for run in runs]
        parts = [part for run in runs for part in run.take_due(times)]
        for run in runs:
            if run.left and run.batch is None:
                self._write(run)
            elif run.left:
                self._runs.append(run)
        return parts

    def forget(self, times: Sequence[int]) -> None:
        """Forgets the groups that are complete."""
        for part in self._parts:
            part.forget(times)
        self._take_here(times)
        self._note()

    def _check_size(self, parts: Sequence[Partial]) -> None:
        """Fails where what can't be divided has no room in memory."""
        if not self._is_divisible and sum(part.size for part in parts) > self._memory.limit:
            raise too_large("the values of one group", self._memory)

    def _note(self) -> None:
        known = [part.least for part in self._parts] + [run.least() for run in self._runs]
        self.least = (
            [min(times) for times in zip(*known, strict=True)]
            if known
            else [NEVER] * len(self.least)
        )
