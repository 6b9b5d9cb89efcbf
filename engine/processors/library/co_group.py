"""Co-grouping in hand-built DAGs: the rows of several inputs by the same keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import pyarrow as pa

from runnel.dag import ProcessorFactory, storable
from runnel.errors import InterfaceError, ProgrammingError
from runnel.expressions.kernels.values import canonical
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.library.aggregate_operation import LIBRARY, AggregateOperation
from runnel.processors.library.by_key import KeyedOperations, Operations
from runnel.processors.library.mappings import check_unique
from runnel.processors.library.typed_rows import field_of
from runnel.sqltypes import from_arrow


@storable(LIBRARY)
def co_group(keys: Sequence[str], *inputs: Operations) -> ProcessorFactory:
    """Return a supplier of processors that group the rows of several inputs by the same columns.

    They emit the keys and one column per operation, for each key of any input. An operation without
    rows has the value of an empty accumulator. Edges to several of these processors must all be
    partitioned by the keys.

    keys: names of the key columns, which all inputs have, with the same types.
    inputs: for each input the operations over its rows, by the names of their columns:
        `co_group(["shop"], {"orders": counting()}, {"visits": counting()})`.
    """
    if isinstance(keys, str) or not keys or not all(isinstance(key, str) for key in keys):
        raise ProgrammingError(
            f"co_group needs a list of key columns, not {keys!r}", hint='write ["shop"]'
        )
    for item in inputs:
        if not isinstance(item, Mapping) or not all(
            isinstance(operation, AggregateOperation) for operation in item.values()
        ):
            raise InterfaceError(
                "an input of co_group needs a dict of AggregateOperations",
                hint='write {"orders": counting()}',
            )
    names = [name for item in inputs for name in item]
    check_unique([*keys, *names], "name one of the columns otherwise")
    if not names:
        raise ProgrammingError("co_group needs at least one operation")
    return lambda: CoGroupProcessor(tuple(keys), inputs)


class CoGroupProcessor(KeyedOperations):
    """Groups the rows of several inputs.

    keys: names of the key columns.
    inputs: the operations of each input.
    """

    def __init__(self, keys: tuple[str, ...], inputs: Sequence[Operations]) -> None:
        operations = {name: item for operations in inputs for name, item in operations.items()}
        super().__init__(keys, operations, AggregationStage.SINGLE)
        bounds = accumulate(map(len, inputs), initial=0)
        self._places = [range(first, last) for first, last in pairwise(bounds)]
        self._key_types: list[pa.DataType] = []

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        if ordinal >= len(self._places):
            raise ProgrammingError(
                f"co_group has operations for {len(self._places)} inputs, but input {ordinal} has "
                "rows"
            )
        self._check_keys(batch)
        self._accumulate(batch, self._places[ordinal])

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._check_keys(batch)
        super().restore_snapshot(batch)

    def _check_keys(self, batch: pa.RecordBatch) -> None:
        """ProgrammingError if the keys have other types than the keys of earlier batches."""
        fields = [field_of(batch.schema, key) for key in self.key_names]
        types = [canonical(pa.nulls(0, f.type), from_arrow(f.type)).type for f in fields]
        for field, kind, known in zip(fields, types, self._key_types or types, strict=True):
            if kind != known:
                raise ProgrammingError(
                    f'the key column "{field.name}" has types {known} and {kind}',
                    hint="cast one of them by map_batches",
                )
        self._key_types = types
