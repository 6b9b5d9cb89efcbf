"""A job's snapshots as another plan reads them: the state of a vertex under the name, and for the
windows, that it has now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from runnel.dag import DAG
from runnel.expressions.kernels.buffers import pack
from runnel.named_jobs.state_evolution.compatibility import VertexFate, read_anew
from runnel.named_jobs.state_evolution.converted_state import converted, of_other_stage
from runnel.named_jobs.state_evolution.row_columns import with_columns
from runnel.relation.state_identity import Meaning
from runnel.snapshots.store import ENDED, MEANINGS, SnapshotStore, StateReader, VertexState
from runnel.sqltypes import VARCHAR


class AdaptedSnapshots:
    """Reads a snapshot of `store` for another plan, `dag`. `meanings` are those of the plan that it
    was taken of, and of this one; `found` says what becomes of each vertex's state."""

    def __init__(
        self,
        store: SnapshotStore,
        found: Sequence[VertexFate],
        meanings: tuple[Mapping[str, str], Mapping[str, str]],
        dag: DAG,
    ) -> None:
        self._store = store
        self._fates: dict[str, list[VertexFate]] = {}
        for item in found:
            if item.takes_state:
                self._fates.setdefault(item.vertex, []).append(item)
        self._names = {item.source: item.vertex for item in found if item.takes_state}
        self._meanings = meanings
        self._dag = dag
        self._anew = read_anew(dag, found)

    def read(self, snapshot_id: int, vertex: str) -> Sequence[pa.RecordBatch]:
        """As of a SnapshotStore."""
        if vertex == ENDED:
            return self._ended(snapshot_id)
        found: list[pa.RecordBatch] = []
        fates = self._fates.get(vertex, ())
        if len(fates) == 1 and self._is_as_it_was(fates[0]):
            return self._store.read(snapshot_id, fates[0].source)
        for fate in fates:
            batches = self._store.read(snapshot_id, fate.source)
            made = converted(batches, fate.change, dict(fate.watermarks))
            made = (
                with_columns(made, fate.columns, fate.widths, fate.names) if fate.columns else made
            )
            found += (
                of_other_stage(made, fate.source.startswith("accumulate"))
                if fate.crosses_stages
                else made
            )
        return found

    def _ended(self, snapshot_id: int) -> Sequence[pa.RecordBatch]:
        """The vertices that have ended, of those that there are now. One without state that has the
        name, and the meaning, of one that had ended may stand behind something that goes on now."""
        batches = self._store.read(snapshot_id, ENDED)
        if dict(self._meanings[0]) == dict(self._meanings[1]):
            return batches
        names = [name for batch in batches for name in batch.column(0).to_pylist()]
        with_state = {
            vertex
            for vertex, items in self._fates.items()
            if all(item.source in names for item in items)
        } - self._anew
        ended = {
            name for name in names if name not in self._names and self._is_same(name, name)
        } - self._anew
        left = len(ended) + 1
        while len(ended) < left:
            left = len(ended)
            ended = {
                name
                for name in ended
                if all(edge.source in ended | with_state for edge in self._dag.inputs(name))
            }
        found = pack(sorted(ended | with_state), VARCHAR)
        return [pa.record_batch([found], names=["vertex"])] if len(found) else ()

    def _is_as_it_was(self, fate: VertexFate) -> bool:
        is_moved = (
            fate.crosses_stages
            or bool(fate.columns)
            or any(number != now for number, now in fate.watermarks)
        )
        return not is_moved and self._is_same(fate.source, fate.vertex)

    def _is_same(self, source: str, vertex: str) -> bool:
        """Whether a vertex is for what another one was for."""
        before, after = self._meanings[0].get(source), self._meanings[1].get(vertex)
        if before is None or after is None:
            return before is after and vertex in self._dag.vertices
        return Meaning.decode(before).text == Meaning.decode(after).text


def kept_meanings(meanings: Mapping[str, str]) -> list[VertexState]:
    """What vertices are for, as it goes into each snapshot."""
    if not meanings:
        return []
    columns = [pack(list(meanings), VARCHAR), pack(list(meanings.values()), VARCHAR)]
    return [(MEANINGS, pa.record_batch(columns, names=["vertex", "meaning"]))]


def meanings_in(store: StateReader, snapshot_id: int) -> dict[str, str]:
    """What the vertices of the plan that took a snapshot are for; nothing where an earlier version
    took it."""
    batches = store.read(snapshot_id, MEANINGS)
    return {
        vertex: text
        for batch in batches
        for vertex, text in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    }
