"""The example of docs/contributing.md: an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.base.frozen import frozen
from runnel.columns.batches import indexes
from runnel.dag import ProcessorFactory
from runnel.planner.explain import nodes as explain
from runnel.planner.explain.explain import dag_text, tree_text
from runnel.planner.lower import lower as lowering
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import SingleInput
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.testing import verify_processor
from tests.planner.relations import scan
from tests.sample_tables import sample_snapshot, trades


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
class EveryNthRow(SingleInput):
    """The physical node: the first of every `step` rows."""

    step: int


def lower_every_nth(to: Any, node: EveryNthRow) -> Any:
    return to.follow(to.lower(node.input), "every nth", every_nth(node.step), 1)


def describe_every_nth(node: EveryNthRow) -> tuple[str, dict[str, str]]:
    return "Every nth row", {"step": str(node.step)}


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_every_nth(size: int) -> None:
    rows = pa.table({"n": list(range(20))}).to_batches(max_chunksize=size)
    verify_processor(every_nth(3), [rows], [(n,) for n in range(0, 20, 3)])


def test_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[tuple[dict[Any, Callable[..., Any]], Callable[..., Any]]] = [
        (lowering.RULES, lower_every_nth),
        (explain._RULES, describe_every_nth),
    ]
    for table, rule in rules:
        monkeypatch.setitem(table, EveryNthRow, rule)
    rows = choose(scan(trades()), sample_snapshot(()))
    node = EveryNthRow(input=rows, step=3, fields=rows.fields, rows=None)
    assert tree_text(explain.describe(node))[0].startswith("Every nth row (step: 3)")
    assert any("every nth" in line for line in dag_text(lowering.lower(node, 4)))
