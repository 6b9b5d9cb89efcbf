"""Records that a source can't read, on their way to the mapping that 'onError' = 'divert:…'
names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runnel.connector import (
    SinkRequest,
    Source,
    SourcePartition,
    Token,
)
from runnel.errors import Error
from runnel.processor import Guarantee, JobContext
from runnel.processors.sources.malformed_partition import DivertingPartition
from runnel.relation.nodes import Divert

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
