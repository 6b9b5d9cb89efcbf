"""Joins whose build side exceeds the memory limit.

Both sides are written to files, partitioned by the hash of the keys, and joined file by file (a
Grace hash join: Kitsuregawa, Tanaka, Moto-Oka 1983). A file that is itself too large is partitioned
again. If partitioning isn't possible, because there are no keys or because one key has too many
rows, the file is joined by chunks: the probe rows are read once for each chunk of build rows, and
then a last time for the results that depend on all build rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Indexes, join_batches, no_rows
from runnel.expressions.context import EvaluationContext
from runnel.processors.grouping.hash_partitions import DEEPEST, HashPartitions
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
"""Bytes of memory that a build side needs per byte, as in `join`."""
MOST_BYTES = 1 << 30
"""Maximum size in bytes of the build rows that are joined at the same time, as in `join`."""


class SpilledJoin:
    """A join in files.

    plan: the compiled join.
    evaluation: the arguments and settings of the statement.
    memory: the memory budget.
    level: how often the rows were partitioned before.
    facts: the facts about all build rows; None: they are collected.
    """

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
        self._build = HashPartitions(memory, level)
        self._probe = HashPartitions(memory, level)

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
        """Yield all rows of the join; each file is closed after it was joined.

        An empty batch is a point where the cooperative call may end.
        """
        for build, probe in zip(self._build.files, self._probe.files, strict=True):
            needs_build = self._plan.kind in NEEDS_RIGHT and not build.rows
            needs_probe = self._plan.kind not in KEEPS_RIGHT and not probe.rows
            if not (needs_build or needs_probe):
                yield from self._part(build, probe)
            build.close()
            probe.close()
            self._reservation.release()

    def _part(self, build: SpillFile, probe: SpillFile) -> Iterator[pa.RecordBatch]:
        buffered: list[pa.RecordBatch] = []
        pause = no_rows(self._plan.schema)
        reader = build.read()
        for batch in reader:
            buffered.append(batch)
            if self._is_full(buffered):
                if self._can_divide(build):
                    yield from self._divided(buffered, reader, probe)
                else:
                    yield from self._by_chunks(buffered, reader, probe)
                return
            yield pause
        table = self._table(buffered)
        for batch in probe.read():
            yield from table.probe(batch)
        yield from table.lonely_build_rows()

    def _is_full(self, buffered: list[pa.RecordBatch]) -> bool:
        total = sum(map(size_of, buffered))
        self._reservation.set(total)
        return self._reservation.must_spill or total > MOST_BYTES

    def _can_divide(self, build: SpillFile) -> bool:
        """Whether partitioning a file again is useful.

        It isn't if all rows are in one file, as they probably have the same key.
        """
        return (
            self._is_divided
            and self._level < DEEPEST
            and build.rows < sum(file.rows for file in self._build.files)
        )

    def _divided(
        self, buffered: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], probe: SpillFile
    ) -> Iterator[pa.RecordBatch]:
        pause = no_rows(self._plan.schema)
        self._inner = inner = SpilledJoin(
            self._plan, self._evaluation, self._memory, self._level + 1, self._facts
        )
        while buffered:
            inner.take_build(buffered.pop(0))
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
        self, buffered: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], probe: SpillFile
    ) -> Iterator[pa.RecordBatch]:
        matches: list[Indexes] = []
        while buffered:
            table = self._table(buffered)
            for number, batch in enumerate(probe.read()):
                if number == len(matches):
                    matches.append(np.zeros(batch.num_rows, np.int64))
                yield from table.probe_part(batch, matches[number])
            yield from table.lonely_build_rows()
            del table
            buffered = []
            self._reservation.release()
            for batch in rest:
                buffered.append(batch)
                if self._is_full(buffered):
                    break
        if self._plan.is_left_only or self._plan.kind in KEEPS_LEFT:
            table = self._table([])
            for number, batch in enumerate(probe.read()):
                yield from table.finish(batch, matches[number])

    def _table(self, buffered: list[pa.RecordBatch]) -> JoinTable:
        build = join_batches(buffered) if buffered else no_rows(self._plan.right_schema)
        return JoinTable(self._plan, build, self._evaluation, self._facts)

    def close(self) -> None:
        """Release memory and files."""
        if self._inner is not None:
            self._inner.close()
        self._reservation.release()
        self._build.close()
        self._probe.close()
