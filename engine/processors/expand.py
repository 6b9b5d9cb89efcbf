"""Repeats each row once per list of projections, as the input of GROUPING SETS."""

from __future__ import annotations

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.expressions.nodes import Expression
from runnel.processors.calc import Transform, compile_projection, divided
from runnel.processors.stateful.buffered import EmittingProcessor


class ExpandProcessor(EmittingProcessor):
    """Emits the result of each transform for each batch."""

    def __init__(self, transforms: tuple[Transform, ...]) -> None:
        super().__init__()
        self._transforms = transforms

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        evaluation = self.context.job.evaluation
        self.emit_all(
            result
            for transform in self._transforms
            for result in divided(batch, transform, evaluation)
        )


def expand(
    projections: tuple[tuple[Expression, ...], ...], names: tuple[str, ...]
) -> ProcessorFactory:
    """Return a supplier of processors that emit each row once per list of `projections`.

    names: the names of the columns.
    """
    transforms = tuple(compile_projection(item, names) for item in projections)
    return lambda: ExpandProcessor(transforms)
