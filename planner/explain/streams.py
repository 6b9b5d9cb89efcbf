"""What nodes of event time say of themselves in EXPLAIN: as in `describe`."""

from __future__ import annotations

from runnel.planner.explain.parts import (
    Properties,
)
from runnel.planner.physical import stream_nodes as physical_streams


def late_property(late: physical_streams.LateOutput | None) -> Properties:
    return {} if late is None else {"late rows": late.table.name}
