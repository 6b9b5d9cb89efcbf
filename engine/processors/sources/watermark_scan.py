"""Scans that also emit watermarks."""

from __future__ import annotations

from runnel.connector import Source
from runnel.expressions.nodes import Expression
from runnel.processors.calc import compile_transform, works_slowly
from runnel.processors.sources.partition_watermarks import CompiledTimeRule, TimeRule
from runnel.processors.sources.scan import ScanMetaSupplier, ScanProcessor
from runnel.processors.sources.scan_watermarks import ScanWatermarks


def event_time_scan(
    source: Source,
    condition: Expression | None,
    projections: tuple[Expression, ...] | None,
    names: tuple[str, ...],
    time: TimeRule,
) -> ScanMetaSupplier:
    """Like `scan`, but the processors also emit watermarks.

    time: how watermarks are generated; its expressions are over the requested columns.
    """
    transform = compile_transform(condition, projections, names)
    is_slow, rule = works_slowly(condition, projections), CompiledTimeRule(time)
    return ScanMetaSupplier(
        source,
        lambda share: ScanProcessor(share, transform, is_slow, ScanWatermarks(rule, share.least)),
    )
