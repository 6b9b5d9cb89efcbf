"""The division of restored state among the processors of a vertex."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.columns.key_hash import KEY_METADATA, Partitioning
from runnel.errors import OperationalError
from runnel.snapshots.store import share_of


class StateDivision:
    """How the keyed state of a vertex is divided: as its input edges divide the rows.

    An edge may divide rows by some of the keys of the state, in another order, or by a function of
    the user. If a processor names the columns of its keys, or an edge has a function, state is
    therefore divided by the rule of the edge, and otherwise by the hash of all keys.

    vertex: name of the vertex.
    edges: how the partitioned edges into the vertex divide rows.
    key_names: columns of the input by which the state is keyed; () if the processor names none.
    """

    def __init__(
        self, vertex: str, edges: Sequence[Partitioning], key_names: tuple[str, ...]
    ) -> None:
        self._vertex = vertex
        self._edges = edges
        self._key_names = key_names
        self._is_by_edge = any(key_names or edge.function is not None for edge in edges)

    def share_of(self, batch: pa.RecordBatch, index: int, parallelism: int) -> pa.RecordBatch:
        """The rows of state for a processor: the rows of its keys, or all rows without keys."""
        keys = (batch.schema.metadata or {}).get(KEY_METADATA)
        if keys is None or parallelism == 1 or not self._is_by_edge:
            return share_of(batch, index, parallelism)
        columns = keys.decode().split("\n")
        names = self._key_names if len(self._key_names) == len(columns) else tuple(columns)
        for edge in self._edges:
            if set(edge.keys) <= set(names):
                positions = [
                    batch.schema.get_field_index(columns[names.index(key)]) for key in edge.keys
                ]
                return edge.divided_by_columns(batch, positions, parallelism)[index]
        return self._by_position(batch, columns, (index, parallelism))

    def _by_position(
        self, batch: pa.RecordBatch, columns: Sequence[str], processor: tuple[int, int]
    ) -> pa.RecordBatch:
        """The rows of state for a processor, if the state's keys have other names than the keys of
        all edges."""
        function = next((edge for edge in self._edges if edge.function is not None), None)
        if function is None:
            return share_of(batch, *processor)
        if len(function.keys) != len(columns):
            raise OperationalError(
                f'the state of vertex "{self._vertex}" can\'t be divided by the partition function '
                f"of the edge {function.edge}",
                detail=f"the function has the keys {', '.join(function.keys)}, the state has "
                f"{', '.join(columns)}",
                hint="name the key columns of the state as the columns of the edge",
            )
        positions = [batch.schema.get_field_index(name) for name in columns]
        return function.divided_by_columns(batch, positions, processor[1])[processor[0]]
