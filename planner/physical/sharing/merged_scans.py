"""Merging of scans of one table: a single scan reads the columns that any of them needs.

Scans are merged if their event times are defined in the same way; a scan without an event time is
merged with any. A condition that all of them have stays in the scan; everything else becomes a
calculation above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runnel.connector import ScanRequest
from runnel.expressions.nodes import Column, Expression
from runnel.expressions.properties import is_volatile
from runnel.planner.physical.nodes import Calc, Physical, SourceScan
from runnel.planner.rewriting import renumber
from runnel.processors.sources.partition_watermarks import TimeRule
from runnel.relation.nodes import Field

UNUSED = -1
"""The number of a watermark in a scan that does not request it."""


def merged_scans(scans: Iterable[SourceScan]) -> dict[int, Physical]:
    """The replacements of the scans that can be merged, by the `id` of the scan. A replacement
    computes the rows of its scan from a merged scan; the merged scans of a group are equal except
    for the number of their watermark."""
    groups: dict[tuple[int, int], list[SourceScan]] = {}
    for scan in scans:
        groups.setdefault((id(scan.table), id(scan.malformed)), []).append(scan)
    merged: dict[int, Physical] = {}
    for group in groups.values():
        for same_time in _by_time(group):
            if len(same_time) > 1:
                merged |= _merged(same_time)
    return merged


def _by_time(scans: list[SourceScan]) -> list[list[SourceScan]]:
    """The scans grouped by event time; a scan without an event time is in the first group. Omits
    scans whose event time is volatile."""
    groups: dict[Any, list[SourceScan]] = {}
    untimed = [scan for scan in scans if scan.time is None]
    for scan in scans:
        if scan.time is not None and not any(map(is_volatile, _conjuncts(scan.time))):
            rule = _moved(scan.time, dict(enumerate(scan.request.columns)))
            groups.setdefault(replace(rule, watermark=UNUSED), []).append(scan)
    if not groups:
        return [untimed]
    first = next(iter(groups.values()))
    first += untimed
    return list(groups.values())


def _merged(scans: list[SourceScan]) -> dict[int, Physical]:
    """The replacements of scans of one table and event time.

    Scans of the columns (a, c) and (c, d) are merged into a scan of (a, c, d). The `move` of the
    second scan is {0: 1, 1: 2}: its column 0, which is c, has index 1 in the merged scan.
    """
    columns = tuple(dict.fromkeys(column for scan in scans for column in scan.request.columns))
    indexes = {column: index for index, column in enumerate(columns)}
    moves = [
        {own: indexes[column] for own, column in enumerate(scan.request.columns)} for scan in scans
    ]
    conditions = [
        _renumbered(scan.condition, move) for scan, move in zip(scans, moves, strict=True)
    ]
    is_common = all(item == conditions[0] for item in conditions) and not _is_volatile(
        conditions[0]
    )
    predicate = scans[0].request.predicate
    if not is_common or any(scan.request.predicate != predicate for scan in scans):
        predicate = None
    table = scans[0].table
    fields = tuple(
        Field(table.columns[column].name, table.columns[column].type) for column in columns
    )
    timed = next(
        (scan, move)
        for scan, move in zip(scans, moves, strict=True)
        if scan.time is not None or _no_time(scans)
    )
    rule = None if timed[0].time is None else _moved(timed[0].time, timed[1])
    merged: dict[int, Physical] = {}
    for scan, move, condition in zip(scans, moves, conditions, strict=True):
        number = UNUSED if scan.time is None else scan.time.watermark
        below = SourceScan(
            fields=fields,
            rows=scan.rows,
            table=table,
            request=ScanRequest(columns, predicate),
            condition=condition if is_common else None,
            time=None if rule is None else replace(rule, watermark=number),
            malformed=scan.malformed,
        )
        merged[id(scan)] = _above(scan, below, None if is_common else condition, move)
    return merged


def _above(
    scan: SourceScan, below: SourceScan, condition: Expression | None, move: Mapping[int, int]
) -> Physical:
    """The rows of `scan`, computed from `below`, which has its columns at other positions."""
    columns: tuple[Expression, ...]
    if scan.projections is None:
        kinds = [below.fields[index].type for index in move.values()]
        columns = tuple(
            Column(index=index, name=item.name, type=kind)
            for index, item, kind in zip(move.values(), scan.fields, kinds, strict=True)
        )
    else:
        columns = tuple(renumber(item, move) for item in scan.projections)
    is_identity = len(columns) == len(below.fields) and all(
        isinstance(item, Column) and item.index == index for index, item in enumerate(columns)
    )
    if is_identity and condition is None:
        return below
    return Calc(
        fields=scan.fields,
        rows=scan.rows,
        input=below,
        condition=condition,
        projections=None if is_identity else columns,
    )


def _no_time(scans: list[SourceScan]) -> bool:
    return all(scan.time is None for scan in scans)


def _moved(rule: TimeRule, move: Mapping[int, int]) -> TimeRule:
    return replace(
        rule, time=renumber(rule.time, move), condition=_renumbered(rule.condition, move)
    )


def _renumbered(expression: Expression | None, move: Mapping[int, int]) -> Expression | None:
    return None if expression is None else renumber(expression, move)


def _conjuncts(rule: TimeRule) -> tuple[Expression, ...]:
    return (rule.time,) if rule.condition is None else (rule.time, rule.condition)


def _is_volatile(expression: Expression | None) -> bool:
    return expression is not None and is_volatile(expression)
