"""Reads a followed path in a test: all partitions of one execution, on one thread."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.connector import Pause, ScanRequest, SourcePartition
from runnel.errors import ErrorCode, OperationalError
from runnel.processor import ExpiredPosition, JobContext
from runnel.processors.sources.scan_state import named
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import ManualClock
from tests.connectors.conformance import job_context, visible
from tests.connectors.files.cases import mapping

MILLISECOND = 1_000_000
POLL = 100 * MILLISECOND
COLUMNS = [("id", BIGINT), ("name", VARCHAR)]

Tokens = dict[str, Any]


class Execution:
    """One execution of a job that follows a path.

    tokens: the positions from which it starts, by partition; {}: it starts without any.
    """

    def __init__(
        self,
        path: Path,
        clock: ManualClock | None = None,
        tokens: Mapping[str, Any] | None = None,
        owner: str = "1",
        **options: str,
    ) -> None:
        self.clock = clock or ManualClock()
        self.table = mapping(path, COLUMNS, follow="true", **{"format": "csv", **options})
        context = job_context()
        self.context = JobContext(
            1, context.evaluation, self.clock.monotonic, context.results, owner=owner
        )
        self.source = self.table.scan(ScanRequest(visible(self.table)))
        self.parts: dict[str, SourcePartition] = named(self.source.split(self.context))
        for name, token in (tokens or {}).items():
            if name not in self.parts:
                self.parts[name] = self.source.reopen(name, token, self.context)
        for name, part in self.parts.items():
            if tokens and name in tokens:
                self._seek(part, tokens[name])
        for part in self.parts.values():
            part.open(lambda: None)
        self.pauses: dict[str, Pause] = {}

    def _seek(self, part: SourcePartition, token: Any) -> None:
        try:
            part.seek(json.loads(json.dumps(token)))
        except OperationalError as error:
            assert error.code is ErrorCode.POSITION_EXPIRED
            part.skip_to(ExpiredPosition.EARLIEST)

    def read(self, name: str) -> list[int]:
        """The ids that one read returns."""
        part = self.parts[name]
        try:
            item = part.read()
        except OperationalError as error:
            assert error.code is ErrorCode.POSITION_EXPIRED
            part.skip_to(ExpiredPosition.EARLIEST)
            return []
        self.pauses.pop(name, None)
        if isinstance(item, Pause):
            self.pauses[name] = item
        return item.column(0).to_pylist() if isinstance(item, pa.RecordBatch) else []

    def look(self) -> dict[str, list[int]]:
        """What the partitions return after the poll interval; only those that return rows."""
        self.clock.advance(POLL)
        found: dict[str, list[int]] = {}
        for _ in range(3):  # a partition may wait for others once
            for name in self.parts:
                self.pauses.pop(name, None)
                while name not in self.pauses:
                    rows = self.read(name)
                    if rows:
                        found.setdefault(name, []).extend(rows)
        return {name: found[name] for name in self.parts if name in found}

    def held(self) -> list[str]:
        """The partitions that hold back the watermark until the idle timeout."""
        return [name for name, pause in self.pauses.items() if not pause.is_finished]

    def positions(self) -> Tokens:
        return {name: part.position() for name, part in self.parts.items()}

    def close(self) -> None:
        for part in self.parts.values():
            part.close()
