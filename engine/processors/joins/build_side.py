"""The build side of a join with its index, and what becomes of probe rows.

Per probe batch the candidates (pairs of a probe row and a build row) come from the index, at most
MAX_ROWS at a time, so that neither a skewed key nor a cross join ever holds more than that in
memory. Pairs whose keys turn out to differ and pairs for which the condition isn't true are
dropped; what is left decides what each kind emits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_flags,
    indexes,
    make_batch,
    true_flags,
)
from runnel.errors import DataError, Position
from runnel.expressions.context import EvaluationContext, Frame
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression, columns_of
from runnel.processors.joins.index import make_index
from runnel.processors.joins.marks import BuildFacts, UnknownMatches
from runnel.processors.joins.range_pairs import pairs_in_ranges
from runnel.relation.nodes import LEFT_ONLY, MARKS, Field, JoinKind
from runnel.sqltypes import BOOLEAN, to_arrow

KEEPS_LEFT = (JoinKind.LEFT, JoinKind.FULL, JoinKind.SINGLE)
KEEPS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)
UNKNOWNS = (JoinKind.MARK, JoinKind.NULL_ANTI)
NEEDS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI, JoinKind.CROSS)
"""The kinds that give nothing where the right side is empty."""


@frozen
class JoinShape:
    """What a join does with the pairs of equal keys: `condition` is over the columns of both sides;
    `columns` are those of the result (None: all); the keys whose number is in `null_safe` match by
    IS NOT DISTINCT FROM. `answers_at_once`: the pairs of a probe batch come before the next one is
    asked for, so the build side can't go to files. `position` is for errors."""

    kind: JoinKind
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None
    null_safe: tuple[int, ...] = ()
    answers_at_once: bool = False
    position: Position | None = None


class JoinPlan:
    """A compiled join, shared by executions."""

    def __init__(
        self,
        shape: JoinShape,
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        kind, condition, columns = shape.kind, shape.condition, shape.columns
        self.kind = kind
        self.answers_at_once = shape.answers_at_once
        self.position = shape.position
        self.null_safe = frozenset(shape.null_safe)
        self.left_keys = [compile_expression(item) for item in keys[0]]
        self.right_keys = [compile_expression(item) for item in keys[1]]
        self.condition = None if condition is None else compile_expression(condition)
        self.condition_columns = (
            frozenset() if condition is None else frozenset(columns_of(condition))
        )
        self.left_width = len(fields[0])
        self.left_schema = _schema(fields[0])
        self.right_schema = _schema(fields[1])
        self.is_left_only = kind in LEFT_ONLY or kind in MARKS
        given = list(fields[0]) if self.is_left_only else [*fields[0], *fields[1]]
        if kind in MARKS:
            given.append(Field("matched", BOOLEAN))
        chosen = range(len(given)) if columns is None else columns
        self.schema = _schema([Field(n, given[i].type) for n, i in zip(names, chosen, strict=True)])
        self.left_output = [i for i in chosen if i < self.left_width]
        self.right_output = [i - self.left_width for i in chosen if i >= self.left_width]
        found = [*self.left_output, *(self.left_width + i for i in self.right_output)]
        self._order = None if found == list(chosen) else [found.index(i) for i in chosen]

    def build_keys(self, batch: pa.RecordBatch, evaluation: EvaluationContext) -> list[pa.Array]:
        frame = Frame(batch.columns, batch.num_rows, evaluation)
        return [evaluate(item, frame) for item in self.right_keys]

    def probe_keys(self, batch: pa.RecordBatch, evaluation: EvaluationContext) -> list[pa.Array]:
        frame = Frame(batch.columns, batch.num_rows, evaluation)
        return [evaluate(item, frame) for item in self.left_keys]

    def left_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those of the left side that are part of the result."""
        return (
            batch
            if self.left_output == list(range(self.left_width))
            else batch.select(self.left_output)
        )

    def row_batch(self, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        """The result of the left side's output columns followed by the others."""
        return make_batch(
            columns if self._order is None else [columns[i] for i in self._order],
            self.schema,
            count,
        )


def _schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([pa.field(item.name, to_arrow(item.type)) for item in fields])


@dataclass(slots=True)
class Pairs:
    """Probe rows and build rows that belong together. `is_whole`: each probe row is there once, in
    order."""

    probe: Indexes
    build: Indexes
    is_whole: bool = False


class JoinTable:
    """The build rows, indexed. `facts` are about the whole build side where these rows are only a
    part of it; `matched` says which rows were matched before."""

    def __init__(
        self,
        plan: JoinPlan,
        build: pa.RecordBatch,
        evaluation: EvaluationContext,
        facts: BuildFacts | None = None,
        matched: Mask | None = None,
    ) -> None:
        self._plan = plan
        self._evaluation = evaluation
        self.build = build
        self.build_output = build if plan.is_left_only else build.select(plan.right_output)
        count = build.num_rows
        self._build_keys = plan.build_keys(build, evaluation)
        self._index = make_index(self._build_keys, count, plan.null_safe)
        self.matched = np.zeros(count if plan.kind in KEEPS_RIGHT else 0, np.bool_)
        if matched is not None:
            self.matched[: len(matched)] = matched
        self._unknown = (
            UnknownMatches(self._build_keys, count, facts) if plan.kind in UNKNOWNS else None
        )

    def probe(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The results for one probe batch."""
        plan = self._plan
        count = batch.num_rows
        keys = plan.probe_keys(batch, self._evaluation)
        matches = np.zeros(count, np.int64)
        if plan.is_left_only and self._index.is_exact and plan.condition is None:
            matches = self._index.find(keys, count)[1]
        else:
            for candidates, is_last in self._candidates(keys, count):
                pairs = self._true_pairs(batch, keys, candidates)
                if not plan.is_left_only:
                    yield from self._joined(batch, pairs, matches, is_last)
                if plan.is_left_only or not is_last:
                    matches += np.bincount(pairs.probe, minlength=count)
                if plan.is_left_only and not is_last:
                    # Nothing comes out yet, but a call may end here.
                    yield batch.slice(0, 0)
        if plan.is_left_only:
            yield self._left_only(batch, keys, matches > 0)

    def probe_part(
        self, batch: pa.RecordBatch, matches: Indexes, unknown: Mask | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The pairs of a probe batch where these build rows are only some of those it must see;
        `matches` counts them for each row, and `unknown` gathers the rows that a NULL may make
        equal. What follows from all counts is what `finish` gives."""
        keys = self._plan.probe_keys(batch, self._evaluation)
        for candidates, _ in self._candidates(keys, batch.num_rows):
            pairs = self._true_pairs(batch, keys, candidates)
            matches += np.bincount(pairs.probe, minlength=batch.num_rows)
            if self._plan.kind in KEEPS_RIGHT:
                self.matched[pairs.build] = True
            if not self._plan.is_left_only:
                _check_single(self._plan, matches)
                yield self._rows(batch, pairs, None)
        if unknown is not None:
            unknown |= self._unknown_rows(batch, keys, matches > 0)

    def finish(
        self, batch: pa.RecordBatch, matches: Indexes, unknown: Mask | None = None
    ) -> Iterator[pa.RecordBatch]:
        """What a probe batch gives once it has seen all build rows: the rows without a match, or
        the rows themselves."""
        plan = self._plan
        if plan.is_left_only:
            yield self._left_only(
                batch, plan.probe_keys(batch, self._evaluation), matches > 0, unknown
            )
        elif plan.kind in KEEPS_LEFT:
            lonely = np.flatnonzero(matches == 0)
            nothing = np.zeros(len(lonely), np.int64)
            yield self._rows(batch, Pairs(lonely, nothing), nothing.astype(np.bool_))

    def _candidates(self, keys: list[pa.Array], count: int) -> Iterator[tuple[Pairs, bool]]:
        """The candidates, at most MAX_ROWS at a time, in order of the probe rows, each time with
        whether they are the last; at least one chunk, perhaps empty."""
        only = self._index.find_only(keys) if count <= MAX_ROWS else None
        if only is None:
            yield from self._chunks(*self._index.find(keys, count))
            return
        found = only >= 0
        if found.all():
            yield Pairs(np.arange(count), only, is_whole=True), True
        else:
            yield Pairs(np.flatnonzero(found), only[found]), True

    def _chunks(self, starts: Indexes, counts: Indexes) -> Iterator[tuple[Pairs, bool]]:
        for probe, places, is_last in pairs_in_ranges(starts, counts):
            yield Pairs(probe, self._index.rows[places]), is_last

    def _true_pairs(self, batch: pa.RecordBatch, keys: list[pa.Array], pairs: Pairs) -> Pairs:
        confirmed = self._index.confirm(keys, pairs.probe, pairs.build)
        if confirmed is not None and not confirmed.all():
            pairs = Pairs(pairs.probe[confirmed], pairs.build[confirmed])
        if self._plan.condition is not None and len(pairs.probe):
            true = self._condition(batch, pairs)
            if not true.all():
                pairs = Pairs(pairs.probe[true], pairs.build[true])
        return pairs

    def _condition(self, batch: pa.RecordBatch, pairs: Pairs) -> Mask:
        """For which pairs the condition is true. Only the columns that it reads are brought
        together."""
        plan = self._plan
        assert plan.condition is not None
        probe, build = indexes(pairs.probe), indexes(pairs.build)
        columns: list[pa.Array] = [None] * (plan.left_width + len(plan.right_schema))
        for place in plan.condition_columns:
            if place < plan.left_width:
                columns[place] = batch.column(place).take(probe)
            else:
                columns[place] = self.build.column(place - plan.left_width).take(build)
        frame = Frame(columns, len(pairs.probe), self._evaluation)
        return true_flags(evaluate(plan.condition, frame))

    def _joined(
        self, batch: pa.RecordBatch, pairs: Pairs, matches: Indexes, is_last: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk of pairs; after the last one also the probe rows without any, where
        the kind keeps them."""
        kind = self._plan.kind
        if kind in KEEPS_RIGHT:
            self.matched[pairs.build] = True
        if kind not in KEEPS_LEFT:
            yield self._rows(batch, pairs, None)
            return
        found = matches + np.bincount(pairs.probe, minlength=batch.num_rows)
        _check_single(self._plan, found)
        lonely = np.flatnonzero(found == 0) if is_last else pairs.probe[:0]
        if not len(lonely):
            yield self._rows(batch, pairs, None)
            return
        valid = np.ones(len(pairs.probe) + len(lonely), np.bool_)
        valid[len(pairs.probe) :] = False
        probe = np.concatenate((pairs.probe, lonely))
        build = np.concatenate((pairs.build, np.zeros(len(lonely), np.int64)))
        yield self._rows(batch, Pairs(probe, build), valid)

    def _rows(self, batch: pa.RecordBatch, pairs: Pairs, valid: Mask | None) -> pa.RecordBatch:
        count = len(pairs.probe)
        left = self._plan.left_columns(batch)
        if left.num_columns and not pairs.is_whole:
            left = left.take(indexes(pairs.probe))
        right = (
            self.build_output.take(indexes(pairs.build, valid)).columns
            if self._plan.right_output
            else ()
        )
        return self._plan.row_batch([*left.columns, *right], count)

    def _left_only(
        self,
        batch: pa.RecordBatch,
        keys: list[pa.Array],
        matched: Mask,
        unknown: Mask | None = None,
    ) -> pa.RecordBatch:
        kind = self._plan.kind
        if kind is JoinKind.EXISTS_MARK:
            return self._marked(batch, from_flags(matched))
        if kind is JoinKind.SEMI or kind is JoinKind.ANTI:
            return self._kept(batch, matched if kind is JoinKind.SEMI else ~matched)
        # A row may be unknown by some build rows, and matched by others.
        unknown = (
            self._unknown_rows(batch, keys, matched) if unknown is None else unknown & ~matched
        )
        if kind is JoinKind.MARK:
            return self._marked(batch, from_flags(matched, ~unknown))
        return self._kept(batch, ~(matched | unknown))

    def _unknown_rows(self, batch: pa.RecordBatch, keys: list[pa.Array], matched: Mask) -> Mask:
        """Which of the rows without a match a NULL may make equal."""
        rows = np.flatnonzero(~matched)
        unknown: Mask = np.zeros(batch.num_rows, np.bool_)
        if len(rows):
            condition = (
                None
                if self._plan.condition is None
                else lambda p, b: self._condition(batch, Pairs(p, b))
            )
            assert self._unknown is not None
            unknown[rows] = self._unknown.among(keys, rows, condition)
        return unknown

    def _marked(self, batch: pa.RecordBatch, mark: pa.Array) -> pa.RecordBatch:
        columns = self._plan.left_columns(batch).columns
        return self._plan.row_batch(
            [*columns, mark] if self._plan.right_output else columns, batch.num_rows
        )

    def _kept(self, batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
        kept = self._plan.left_columns(batch).filter(from_flags(keep))
        return self._plan.row_batch(kept.columns, int(np.count_nonzero(keep)))

    def lonely_build_rows(self) -> Iterator[pa.RecordBatch]:
        """The build rows that no probe row matched, where the kind keeps them."""
        rows = np.flatnonzero(~self.matched)
        for start in range(0, len(rows), MAX_ROWS):
            chosen = rows[start : start + MAX_ROWS]
            build = (
                self.build_output.take(indexes(chosen)).columns if self._plan.right_output else ()
            )
            nulls = [
                pa.nulls(len(chosen), self._plan.left_schema.field(i).type)
                for i in self._plan.left_output
            ]
            yield self._plan.row_batch([*nulls, *build], len(chosen))


def _check_single(plan: JoinPlan, matches: Indexes) -> None:
    if plan.kind is JoinKind.SINGLE and len(matches) and matches.max() > 1:
        raise DataError(
            "more than one row returned by a subquery used as an expression",
            hint="let the subquery return at most one row, with an aggregate or LIMIT 1",
            position=plan.position,
        )
