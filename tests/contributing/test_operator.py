"""The example of docs/contributing.md: an operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot
from runnel.columns.batches import indexes
from runnel.dag import ProcessorFactory
from runnel.errors import NotSupportedError
from runnel.planner.estimates import estimate
from runnel.planner.explain.explain import dag_text, tree_text
from runnel.planner.explain.nodes import describe, describe_state
from runnel.planner.lower.dag_builder import Lowering, VertexOutput, lower
from runnel.planner.operators import passes
from runnel.planner.operators.passes import Positions, by_default
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import Physical, SingleInput
from runnel.planner.rules.column_pruning import prune, prune_columns
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import Relation, Single
from runnel.testing import verify_processor
from tests.planner.relations import scan
from tests.sample_tables import sample_snapshot, trades

HOME = ""
"""In Runnel, "every_nth": the home is the module planner/operators/every_nth.py. Here it is this
file."""


class EveryNth(EmittingProcessor):
    """Passes on the first of every `step` rows. Runs at parallelism 1."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step
        self._to_skip = 0

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        # Rows 0 1 2 | 3 4 with step 2: row 0 and 2 are passed on, 1 row is skipped in the
        # second batch, then row 4 is passed on.
        chosen = np.arange(self._to_skip, batch.num_rows, self._step)
        self._to_skip = (self._to_skip - batch.num_rows) % self._step
        self.emit(batch.take(indexes(chosen)))

    def state(self) -> list[pa.RecordBatch]:
        """The number of rows to skip, for a snapshot."""
        return [pa.RecordBatch.from_pydict({"to_skip": [self._to_skip]})]

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._to_skip = batch["to_skip"][0].as_py()


def every_nth(step: int) -> ProcessorFactory:
    """A supplier of processors that pass on the first of every `step` rows."""
    return lambda: EveryNth(step)


@frozen(kw_only=True)
class EveryNthRow(Single):
    """The relational node: the first of every `step` rows."""

    family = HOME

    step: int


@frozen(kw_only=True)
class PhysicalEveryNthRow(SingleInput):
    """The physical node, with the fields of EveryNthRow."""

    family = HOME

    step: int


@passes.PRUNING.of(EveryNthRow)
def prune_every_nth(node: EveryNthRow, needed: set[int]) -> tuple[Relation, Positions]:
    below, positions = prune(node.input, needed)
    return replace(node, input=below), positions


@passes.CHOICES.of(EveryNthRow)
def choose_every_nth(node: EveryNthRow, snapshot: Snapshot) -> Physical:
    below = choose(node.input, snapshot)
    return PhysicalEveryNthRow(fields=node.fields, rows=estimate(node), input=below, step=node.step)


@passes.STREAM_CHECKS.of(EveryNthRow)
def check_every_nth(node: EveryNthRow, unbounded_state: bool) -> None:
    if node.input.never_ends:
        raise NotSupportedError("every nth row of a stream is not supported")


@passes.EXPLAIN.of(EveryNthRow, PhysicalEveryNthRow)
def describe_every_nth(node: EveryNthRow | PhysicalEveryNthRow) -> tuple[str, dict[str, str]]:
    return "Every nth row", {"step": str(node.step)}


@passes.LOWERING.of(PhysicalEveryNthRow)
def lower_every_nth(to: Lowering, node: PhysicalEveryNthRow) -> VertexOutput:
    return to.follow(to.lower(node.input), "every nth", every_nth(node.step), 1)


@passes.IDENTITY.of(PhysicalEveryNthRow)
def identify_every_nth(node: PhysicalEveryNthRow) -> tuple[str, dict[str, str]]:
    return "Every nth row", {"step": str(node.step)}


passes.STATE_TEXTS.add(lambda node: "the number of rows to skip", PhysicalEveryNthRow)
by_default(EveryNthRow, passes.PREDICATES, passes.EMPTY, passes.LIMITS)
by_default(PhysicalEveryNthRow, passes.STAGES, passes.TABLE_SHARING, passes.STREAM_SHARING)


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_every_nth(size: int) -> None:
    rows = pa.table({"n": list(range(20))}).to_batches(max_chunksize=size)
    verify_processor(every_nth(3), [rows], [(n,) for n in range(0, 20, 3)])


def test_its_plan() -> None:
    snapshot = sample_snapshot(())
    node = EveryNthRow(input=scan(trades()), step=3)
    plan = choose(prune_columns(node), snapshot)
    assert tree_text(describe(plan))[0].startswith("Every nth row (step: 3)")
    assert any("every nth" in line for line in dag_text(lower(plan, 4)))
    assert "the number of rows to skip" in tree_text(describe_state(plan))[0]
