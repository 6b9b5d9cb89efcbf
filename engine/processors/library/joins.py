"""Hash joins in hand-built DAGs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from runnel.dag import ProcessorFactory, storable
from runnel.errors import InterfaceError, ProgrammingError
from runnel.processors.joins.join import HashJoinProcessor, JoinPlan, JoinShape
from runnel.processors.library.aggregate_operation import LIBRARY
from runnel.processors.library.mappings import check_unique
from runnel.processors.library.typed_rows import canonical_batch, column_of, fields_of
from runnel.relation.nodes import JoinKind

BUILD, PROBE = 0, 1
"""The inputs of a join."""


@storable(LIBRARY)
def hash_join(
    probe: pa.Schema,
    build: pa.Schema,
    on: Mapping[str, str],
    *,
    outer: bool = False,
    partitioned: bool = False,
) -> ProcessorFactory:
    """A step that joins each row of input 1, the probe side, with the rows of input 0, the build
    side, that have equal keys.

    It emits the columns of the probe side, then the other columns than the keys
    of the build side. The
    build side is read to its end first: the edge to input 1 has a later priority
    (`with_priority(1)`). With several processors, the edge to input 0 is a broadcast, or both edges
    are partitioned by the keys. Several build sides are several joins in a row.

    probe, build: the columns of the batches of both sides.
    on: the key columns of the probe side, and the key columns of the build side that they equal.
        NULL equals nothing.
    outer: whether rows of the probe side without a match are emitted, with NULLs.
    partitioned: whether both edges are partitioned.
    """
    for schema in (probe, build):
        if not isinstance(schema, pa.Schema):
            raise InterfaceError(f"a side of a join needs a pyarrow.Schema, not {schema!r}")
    if not isinstance(on, Mapping) or not on:
        raise ProgrammingError(
            "a join needs the key columns of both sides",
            hint='write on={"column of the probe side": "column of the build side"}',
        )
    left = [column_of(probe, name) for name in on]
    right = [column_of(build, name) for name in on.values()]
    for one, other in zip(left, right, strict=True):
        if one.type != other.type:
            raise ProgrammingError(
                f'the key columns "{one.name}" and "{other.name}" have types {one.type} and '
                f"{other.type}",
                hint="cast one of them by map_batches",
            )
    fields = [*fields_of(probe), *fields_of(build)]
    width = len(probe.names)
    chosen = [
        i for i in range(len(fields)) if i < width or build.names[i - width] not in on.values()
    ]
    names = tuple(fields[i].name for i in chosen)
    check_unique(names, "rename a column of the build side by map_batches")
    shape = JoinShape(JoinKind.LEFT if outer else JoinKind.INNER, columns=tuple(chosen))
    plan = JoinPlan(shape, (left, right), (fields_of(probe), fields_of(build)), names)
    divided_by = tuple(on.values()) if partitioned else ()
    return lambda: JoinStep(plan, divided_by, (build, probe))


class JoinStep(HashJoinProcessor):
    """Joins the batches of a hand-built DAG, whose columns it checks.

    schemas: the columns of input 0 and of input 1.
    """

    def __init__(
        self, plan: JoinPlan, divided_by: tuple[str, ...], schemas: tuple[pa.Schema, pa.Schema]
    ) -> None:
        super().__init__(plan, divided_by)
        self.key_names = divided_by
        self._schemas = schemas
        self._is_restored = False

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        is_built = self._table is not None or self._spilled is not None or self._is_restored
        if ordinal == PROBE and not is_built:
            raise ProgrammingError(
                "the probe side of a join arrived before the end of the build side",
                hint="let the edge to input 1 have a later priority: with_priority(1)",
            )
        declared = self._schemas[ordinal]
        if not batch.schema.equals(declared):
            expected = ", ".join(f"{item.name} {item.type}" for item in declared)
            found = ", ".join(f"{item.name} {item.type}" for item in batch.schema)
            raise ProgrammingError(
                f"input {ordinal} of the join has other columns than it declares",
                detail=f"it declares {expected}; the batch has {found}",
            )
        super().take(ordinal, canonical_batch(batch))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._is_restored = True
        super().take(BUILD, batch.select(range(batch.num_columns - 1)))

    def finish_restore(self) -> bool:
        self._is_restored = True
        return super().finish_restore()
