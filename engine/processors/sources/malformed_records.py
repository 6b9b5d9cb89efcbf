"""Writes malformed records of a source to the mapping that `'onError' = 'divert:…'` names."""

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
from runnel.processors.sources.durable_malformed_records import DurableMalformedRecordPartition
from runnel.processors.sources.malformed_partition import MalformedRecordPartition
from runnel.processors.sources.scan_state import named
from runnel.processors.sources.traits import check_traits
from runnel.relation.nodes import MalformedOutput

FIELDS = ("place", "record", "reason")
"""The columns that a mapping for malformed records may have."""


class MalformedRecordSource(Source):
    """A source that writes its malformed records to a table. Blocking, since sinks are blocking.

    source: the source of rows and records.
    output: the output for malformed records.
    scan_id: identifies the scan within the job, so that it recovers the records that it staged; ""
        if the scan begins from the start after a restart anyway.
    """

    cooperative = False

    def __init__(self, source: Source, output: MalformedOutput, scan_id: str = "") -> None:
        self._source = source
        self._output = output
        self._scan_id = scan_id
        check_traits(source)
        self.traits, self.kind = source.traits, source.kind

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        return [self._with_output(part, context) for part in self._source.split(context)]

    def reopen(self, identity: str, token: Token | None, context: JobContext) -> SourcePartition:
        staged: Sequence[Token] = ()
        if self._is_durable(context) and token is not None:
            token, staged = token["place"], token["staged"]
        try:
            return self._with_output(self._source.reopen(identity, token, context), context)
        except Error:
            # The job may continue without the partition, but not without its staged records.
            if staged:
                self._recover(identity, staged, context)
            raise

    def forget(self, owner: str) -> None:
        self._source.forget(owner)

    def settle(
        self, context: JobContext, saved: Mapping[str, Token | None], *, may_give_up: bool
    ) -> None:
        """Commit the staged records of a job that doesn't run, and abort its other records.

        Records are committed if they belong to the last snapshot.

        saved: the positions in that snapshot, by the name of the partition.
        may_give_up: whether records that can't be committed are aborted too; if not, the error is
            raised.
        """
        if not self._is_durable(context):
            return
        # The name of a partition without an identity is its number.
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
        """Return the identities of the current partitions, by their names in a snapshot."""
        found = named(self._source.split(context))
        for partition in found.values():
            partition.close()
        return {name: partition.identity for name, partition in found.items()}

    def _recover(self, identity: str, staged: Sequence[Token], context: JobContext) -> None:
        sink = self._output.table.sink(self._durable_request(identity, context))
        try:
            sink.recover(staged)
        finally:
            sink.close()

    def _is_durable(self, context: JobContext) -> bool:
        """Whether records are committed with the snapshots.

        They aren't if reading begins from the start after a failure, as they are then read again.
        """
        return (
            context.guarantee is not Guarantee.NONE
            and self.traits.is_repeatable
            and bool(self._scan_id)
        )

    def _with_output(self, partition: SourcePartition, context: JobContext) -> SourcePartition:
        if not self._is_durable(context):
            return MalformedRecordPartition(partition, self._output)
        request = self._durable_request(partition.identity, context)
        return DurableMalformedRecordPartition(
            partition, replace(self._output, request=request), context
        )

    def _durable_request(self, identity: str, context: JobContext) -> SinkRequest:
        owner = f"{context.owner}/malformed records of {self._scan_id}/{identity}"
        return replace(self._output.request, owner=owner)
