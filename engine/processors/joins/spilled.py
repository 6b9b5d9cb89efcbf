"""Joins whose build side memory has no room for.

Both sides are written to files, divided by the hash of the keys (a Grace hash join: Kitsuregawa,
Tanaka, Moto-Oka 1983), and joined file by file. A file that is too large in its turn is divided
again. What can't be divided, because there is no equality to divide by or because one key has too
many rows, is joined by chunks: the probe rows are read once for each chunk of build rows, and once
more for what depends on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, join_batches, no_rows
from runnel.expressions.context import EvaluationContext
from runnel.processors.grouping.hash_partitions import DEEPEST, Partitions
from runnel.processors.joins.build_side import (
    KEEPS_LEFT,
    KEEPS_RIGHT,
    NEEDS_RIGHT,
    JoinPlan,
    JoinTable,
)
from runnel.processors.joins.marks import BuildFacts
from runnel.storage.memory_budget import Memory, Reservation, size_of
from runnel.storage.spill import SpillFile

WEIGHT = 2
MOST_BYTES = 1 << 30


class SpilledJoin:
    """A join in files. `level` counts how often the rows were divided before."""

    def __init__(
        self,
        plan: JoinPlan,
        evaluation: EvaluationContext,
        memory: Memory,
        level: int = 0,
        facts: BuildFacts | None = None,
    ) -> None:
        self._plan = plan
        self._evaluation = evaluation
        self._memory = memory
        self._level = level
        self._counts_facts = facts is None
        self._facts = BuildFacts() if facts is None else facts
        self._reservation = Reservation(memory, WEIGHT)
        self._inner: SpilledJoin | None = None
        self._is_divided = bool(plan.right_keys)
        self._build = Partitions(memory, level)
        self._probe = Partitions(memory, level)

    def take_build(self, batch: pa.RecordBatch) -> None:
        keys = self._plan.build_keys(batch, self._evaluation)
        if self._counts_facts:
            self._facts.rows += batch.num_rows
            self._facts.has_null |= any(key.null_count for key in keys)
        if self._is_divided:
            self._build.write(batch, keys)
        else:
            self._build.files[0].write(batch)

    def take_probe(self, batch: pa.RecordBatch) -> None:
        if self._is_divided:
            self._probe.write(batch, self._plan.probe_keys(batch, self._evaluation))
        else:
            self._probe.files[0].write(batch)

    def results(self) -> Iterator[pa.RecordBatch]:
        """All rows of the join; an empty batch is a pause. The files are closed as they are done
        with."""
        for build, probe in zip(self._build.files, self._probe.files, strict=True):
            needs_build = self._plan.kind in NEEDS_RIGHT and not build.rows
            needs_probe = self._plan.kind not in KEEPS_RIGHT and not probe.rows
            if not (needs_build or needs_probe):
                yield from self._part(build, probe)
            build.close()
            probe.close()
            self._reservation.release()

    def _part(self, build: SpillFile, probe: SpillFile) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        pause = no_rows(self._plan.schema)
        reader = build.read()
        for batch in reader:
            held.append(batch)
            if self._is_full(held):
                if self._can_divide(build):
                    yield from self._divided(held, reader, probe)
                else:
                    yield from self._by_chunks(held, reader, probe)
                return
            yield pause
        table = self._table(held)
        for batch in probe.read():
            yield from table.probe(batch)
        yield from table.lonely_build_rows()

    def _is_full(self, held: list[pa.RecordBatch]) -> bool:
        total = sum(map(size_of, held))
        self._reservation.set(total)
        return self._reservation.must_spill or total > MOST_BYTES

    def _can_divide(self, build: SpillFile) -> bool:
        """Whether it is of use: not where all rows came to one file at once, for they may well have
        one key."""
        return (
            self._is_divided
            and self._level < DEEPEST
            and build.rows < sum(file.rows for file in self._build.files)
        )

    def _divided(
        self, held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], probe: SpillFile
    ) -> Iterator[pa.RecordBatch]:
        pause = no_rows(self._plan.schema)
        self._inner = inner = SpilledJoin(
            self._plan, self._evaluation, self._memory, self._level + 1, self._facts
        )
        while held:
            inner.take_build(held.pop(0))
        self._reservation.release()
        for batch in rest:
            inner.take_build(batch)
            yield pause
        for batch in probe.read():
            inner.take_probe(batch)
            yield pause
        yield from inner.results()
        inner.close()

    def _by_chunks(
        self, held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], probe: SpillFile
    ) -> Iterator[pa.RecordBatch]:
        matches: list[Indexes] = []
        while held:
            table = self._table(held)
            for number, batch in enumerate(probe.read()):
                if number == len(matches):
                    matches.append(np.zeros(batch.num_rows, np.int64))
                yield from table.probe_part(batch, matches[number])
            yield from table.lonely_build_rows()
            del table
            held = []
            self._reservation.release()
            for batch in rest:
                held.append(batch)
                if self._is_full(held):
                    break
        if self._plan.is_left_only or self._plan.kind in KEEPS_LEFT:
            table = self._table([])
            for number, batch in enumerate(probe.read()):
                yield from table.finish(batch, matches[number])

    def _table(self, held: list[pa.RecordBatch]) -> JoinTable:
        build = join_batches(held) if held else no_rows(self._plan.right_schema)
        return JoinTable(self._plan, build, self._evaluation, self._facts)

    def close(self) -> None:
        """Gives memory and files back."""
        if self._inner is not None:
            self._inner.close()
        self._reservation.release()
        self._build.close()
        self._probe.close()
