"""Records that a source can't read, on their way to the mapping that 'onError' = 'divert:…'
names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pyarrow as pa

from runnel.columns.batches import make_batch
from runnel.connector import (
    End,
    EventTimeMark,
    MalformedRecord,
    Pause,
    Sink,
    SinkRequest,
    Skipped,
    Source,
    SourcePartition,
    Token,
)
from runnel.errors import Error
from runnel.expressions.kernels.values import array_of
from runnel.processor import ExpiredPosition, Guarantee, JobContext
from runnel.relation.nodes import Divert
from runnel.sqltypes import VARCHAR

MOST_WAITING = 4096
"""So many records wait at most for their commit; they are committed at once where nothing else is
to be read."""

FIELDS = ("place", "record", "reason")
"""The columns that a mapping may have for such records."""


class DivertingSource(Source):
    """A source whose malformed records are written to a table as they are met. Blocking, since
    sinks are. `place` tells the scans of a job apart, so that each finds again what it staged; ""
    where a scan begins anew after a restart anyway."""

    cooperative = False

    def __init__(self, source: Source, divert: Divert, place: str = "") -> None:
        self._source = source
        self._divert = divert
        self._place = place
        self.is_repeatable, self.is_live = source.is_repeatable, source.is_live
        self.may_grow, self.kind, self.begins_anywhere = (
            source.may_grow,
            source.kind,
            source.begins_anywhere,
        )

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [self._diverting(part, context) for part in self._source.split(context)]

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        staged: Sequence[Token] = ()
        if self._is_durable(context) and token is not None:
            token, staged = token["place"], token["staged"]
        try:
            return self._diverting(self._source.reopen(identity, token, context), context)
        except Error:
            # The job may go on without the partition, but not without what was diverted of it.
            if staged:
                self._recover(identity, staged, context)
            raise

    def forget(self, owner: str) -> None:
        self._source.forget(owner)

    def settle(
        self, context: JobContext, saved: Mapping[str, Token | None], *, may_give_up: bool
    ) -> None:
        """Commits what a job that doesn't run has staged of such records as far as its last
        snapshot counts it, which has the positions `saved` by partition, and gives the rest up.
        `may_give_up`: what can't be committed as well."""
        if not self._is_durable(context):
            return
        # What a partition without an identity is called is its number.
        identities = {name: "" if name.isdecimal() else name for name in saved}
        try:
            identities.update(self._identities(context))
        except Error:
            if not saved:
                raise
        staged: dict[str, list[Token]] = {}
        for name, identity in identities.items():
            token = saved.get(name)
            staged.setdefault(identity, []).extend(() if token is None else token["staged"])
        for identity, tokens in staged.items():
            try:
                self._recover(identity, tokens, context)
            except Error:
                if not may_give_up:
                    raise
                self._recover(identity, (), context)

    def _identities(self, context: JobContext) -> dict[str, str]:
        """Those of the partitions that there are now, by their names in a snapshot."""
        from runnel.processors.sources.scan_state import named

        found = named(self._source.split(context))
        for partition in found.values():
            partition.close()
        return {name: partition.identity for name, partition in found.items()}

    def _recover(self, identity: str, staged: Sequence[Token], context: JobContext) -> None:
        sink = self._divert.table.sink(self._durable_request(identity, context))
        try:
            sink.recover(staged)
        finally:
            sink.close()

    def _is_durable(self, context: JobContext) -> bool:
        """Whether records are committed with the snapshots. Where reading begins anew after a
        failure, they come again."""
        return context.guarantee is not Guarantee.NONE and self.is_repeatable and bool(self._place)

    def _diverting(self, partition: SourcePartition, context: JobContext) -> SourcePartition:
        if not self._is_durable(context):
            return DivertingPartition(partition, self._divert)
        # Loaded on first use: only named jobs take snapshots.
        from runnel.processors.sources.durable_malformed_records import DurableDivertingPartition

        request = self._durable_request(partition.identity, context)
        return DurableDivertingPartition(partition, replace(self._divert, request=request), context)

    def _durable_request(self, identity: str, context: JobContext) -> SinkRequest:
        owner = f"{context.owner}/malformed records of {self._place}/{identity}"
        return replace(self._divert.request, owner=owner)


class DivertingPartition(SourcePartition):
    """One partition of such a source, with a sink of its own."""

    def __init__(self, partition: SourcePartition, divert: Divert) -> None:
        self._partition = partition
        self.identity = partition.identity
        self._divert = divert
        self._sink: Sink | None = None
        self._waiting = 0

    def open(self, wake: Callable[[], None]) -> None:
        self._partition.open(wake)

    def read(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        item = self._read_on()
        if self._waiting and (
            self._waiting >= MOST_WAITING or not isinstance(item, pa.RecordBatch)
        ):
            self._commit()
        return item

    def _read_on(self) -> pa.RecordBatch | EventTimeMark | Pause | End:
        """Reads, and writes the records that can't be read."""
        item = self._partition.read()
        self.malformed = self._partition.malformed
        records = self._partition.take_malformed()
        if records:
            self._write(records)
        return item

    def position(self) -> Token | None:
        return self._partition.position()

    def seek(self, token: Token) -> None:
        self._partition.seek(token)

    def skip_to(self, choice: ExpiredPosition) -> Skipped:
        return self._partition.skip_to(choice)

    def begin_anew(self) -> None:
        self._partition.begin_anew()

    def close(self) -> None:
        try:
            self._partition.close()
        finally:
            sink, self._sink = self._sink, None
            if sink is not None:
                try:
                    # Their places were read: who stops a query here still wants to know of them.
                    if self._waiting:
                        sink.commit(sink.stage(0))
                finally:
                    sink.close()

    def _write(self, records: Sequence[MalformedRecord]) -> None:
        schema = pa.schema([(name, pa.string()) for name in self._divert.fields])
        columns = [
            array_of(list(map(attrgetter(name), records)), VARCHAR) for name in self._divert.fields
        ]
        self._opened().write(make_batch(columns, schema, len(records)))
        self._waiting += len(records)

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = self._divert.table.sink(self._divert.request)
        return self._sink

    def _commit(self) -> None:
        assert self._sink is not None
        self._sink.commit(self._sink.stage(0))
        self._waiting = 0
