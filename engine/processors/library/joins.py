"""Hash joins in hand-built DAGs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from runnel.dag import ProcessorFactory, storable
from runnel.errors import InterfaceError, ProgrammingError
from runnel.processor import Outbox, ProcessorContext
from runnel.processors.joins.join import HashJoinProcessor, JoinPlan, JoinShape
from runnel.processors.library.aggregate_operation import LIBRARY
from runnel.processors.library.mappings import check_unique
from runnel.processors.library.typed_rows import canonical_batch, column_of, fields_of
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.relation.nodes import JoinKind

BUILD, PROBE = 0, 1
"""The inputs of a join with one build side."""

On = Mapping[str, str]
"""The key columns of the probe side, and the key columns of a build side that they equal."""


@storable(LIBRARY)
def hash_join(
    probe: pa.Schema,
    build: pa.Schema | Sequence[pa.Schema],
    on: On | Sequence[On],
    *,
    outer: bool = False,
    partitioned: bool = False,
) -> ProcessorFactory:
    """A step that joins each row of its last input, the probe side, with the rows of its other
    inputs, the build sides, that have equal keys.

    With one build side, that is input 0, and the probe side is input 1. The step emits the columns
    of the probe side, then the other columns than the keys of each build side.
    The build sides are read to their end first: the edge of the probe side has a later priority
    (`with_priority(1)`). With several processors, the edges of the build sides are broadcasts, or
    all edges are partitioned by the keys.

    probe: the columns of the batches of the probe side.
    build: the columns of the batches of the build side, or a list for several build sides.
    on: the key columns of the probe side, and the key columns of the build side that they equal; of
        several build sides a list of these. The keys of a build side may also be columns of an
        earlier build side. NULL equals nothing.
    outer: whether rows of the probe side without a match are emitted, with NULLs.
    partitioned: whether all edges are partitioned.
    """
    if isinstance(build, pa.Schema):
        _check_schemas(probe, build)
        plan = _plan(probe, build, on, outer=outer)
        assert isinstance(on, Mapping)
        divided_by = tuple(on.values()) if partitioned else ()
        return lambda: JoinStep(plan, divided_by, (build, probe))
    builds, conditions = _several(build, on)
    _check_schemas(probe, *builds)
    plans, left = [], probe
    for schema, keys in zip(builds, conditions, strict=True):
        plans.append(_plan(left, schema, keys, outer=outer, is_alone=False))
        left = plans[-1].schema
    keys_of = _divided_by(conditions, partitioned)
    return lambda: StarJoinStep(plans, keys_of, (*builds, probe))


def _check_schemas(*schemas: object) -> None:
    for schema in schemas:
        if not isinstance(schema, pa.Schema):
            raise InterfaceError(f"a side of a join needs a pyarrow.Schema, not {schema!r}")


def _several(build: object, on: object) -> tuple[Sequence[pa.Schema], Sequence[On]]:
    """Return the build sides with their keys; raise if these aren't two lists of one length."""
    if isinstance(build, str) or not isinstance(build, Sequence):
        raise InterfaceError(f"a side of a join needs a pyarrow.Schema, not {build!r}")
    if isinstance(on, str) or not isinstance(on, Sequence) or len(on) != len(build) or not build:
        raise ProgrammingError(
            "a join with several build sides needs the key columns of each",
            hint='write [orders, shops], [{"order": "id"}, {"shop": "id"}]',
        )
    return build, on


def _divided_by(conditions: Sequence[On], partitioned: bool) -> list[tuple[str, ...]]:
    """Return the columns by which each build side is partitioned; () if it is broadcast."""
    if not partitioned:
        return [()] * len(conditions)
    first = list(conditions[0])
    for item in conditions[1:]:
        if list(item) != first:
            raise ProgrammingError(
                f"the build sides are partitioned by different columns of the probe side: "
                f"{', '.join(first)}, and {', '.join(item)}",
                hint="use broadcast edges, or a join for each build side",
            )
    return [tuple(item.values()) for item in conditions]


def _plan(
    probe: pa.Schema, build: pa.Schema, on: object, *, outer: bool, is_alone: bool = True
) -> JoinPlan:
    """Compile the join of two sides.

    is_alone: whether the rows go to a consumer, not to another join of the step.
    """
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
    kind = JoinKind.LEFT if outer else JoinKind.INNER
    shape = JoinShape(kind, columns=tuple(chosen), answers_at_once=not is_alone)
    return JoinPlan(shape, (left, right), (fields_of(probe), fields_of(build)), names)


def _check_batch(ordinal: int, batch: pa.RecordBatch, declared: pa.Schema) -> None:
    """ProgrammingError if a batch has other columns than its input declares."""
    if not batch.schema.equals(declared):
        expected = ", ".join(f"{item.name} {item.type}" for item in declared)
        found = ", ".join(f"{item.name} {item.type}" for item in batch.schema)
        raise ProgrammingError(
            f"input {ordinal} of the join has other columns than it declares",
            detail=f"it declares {expected}; the batch has {found}",
        )


def _too_early(probe: int) -> ProgrammingError:
    return ProgrammingError(
        "the probe side of a join arrived before the end of the build side",
        hint=f"let the edge to input {probe} have a later priority: with_priority(1)",
    )


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
            raise _too_early(PROBE)
        _check_batch(ordinal, batch, self._schemas[ordinal])
        super().take(ordinal, canonical_batch(batch))

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._is_restored = True
        super().take(BUILD, batch.select(range(batch.num_columns - 1)))

    def finish_restore(self) -> bool:
        self._is_restored = True
        return super().finish_restore()


class StarJoinStep(EmittingProcessor):
    """Joins the batches of its last input with several build sides, one after another.

    The state of build side n is the one of a join with one build side, with n before the name of
    the last column.

    plans: the join with each build side; the probe side of a later one is the result of the one
        before it.
    divided_by: the columns by which each build side is partitioned; () if it is broadcast.
    schemas: the columns of each input.
    """

    def __init__(
        self,
        plans: Sequence[JoinPlan],
        divided_by: Sequence[tuple[str, ...]],
        schemas: Sequence[pa.Schema],
    ) -> None:
        super().__init__()
        self._joins = [
            HashJoinProcessor(plan, keys) for plan, keys in zip(plans, divided_by, strict=True)
        ]
        self._schemas = schemas
        self._is_restored = False
        self._ended: set[int] = set()

    def init(self, outbox: Outbox, context: ProcessorContext) -> None:
        super().init(outbox, context)
        for join in self._joins:
            join.init(outbox, context)

    def take(self, ordinal: int, batch: pa.RecordBatch) -> None:
        _check_batch(ordinal, batch, self._schemas[ordinal])
        batch = canonical_batch(batch)
        if ordinal < len(self._joins):
            self._joins[ordinal].take(BUILD, batch)
            return
        if len(self._ended) < len(self._joins) and not self._is_restored:
            raise _too_early(len(self._joins))
        self.emit_all(self._probe(iter([batch]), self._joins))

    def _probe(
        self, batches: Iterator[pa.RecordBatch], joins: Sequence[HashJoinProcessor]
    ) -> Iterator[pa.RecordBatch]:
        if not joins:
            return batches
        table = joins[0].built()
        found = (rows for batch in batches for rows in table.probe(batch))
        return self._probe(found, joins[1:])

    def complete_edge(self, ordinal: int) -> bool:
        if ordinal < len(self._joins):
            self._ended.add(ordinal)
            join = self._joins[ordinal]
            join.complete_edge(BUILD)
            self.is_satisfied = self.is_satisfied or join.is_satisfied
        return self.drain()

    def state(self) -> Iterator[pa.RecordBatch]:
        for number, join in enumerate(self._joins):
            for batch in join.state():
                *names, last = batch.schema.names
                yield batch.rename_columns([*names, f"{number} {last}"]).replace_schema_metadata(
                    batch.schema.metadata
                )

    def restore_snapshot(self, batch: pa.RecordBatch) -> None:
        self._is_restored = True
        number = int(batch.schema.names[-1].partition(" ")[0])
        self._joins[number].restore_snapshot(batch)

    def finish_restore(self) -> bool:
        self._is_restored = True
        return True

    def close(self) -> None:
        super().close()
        for join in self._joins:
            join.close()
