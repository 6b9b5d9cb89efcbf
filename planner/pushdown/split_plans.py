"""Splits plans whose top an engine cannot run because of one operand: it is moved above the rest.

A condition is split into conjuncts that the engine evaluates and conjuncts that Runnel evaluates. A
sort with a LIMIT is moved below the projection above it, whose columns are then computed for the
remaining rows; a copy of it is moved below a UNION ALL, and below a join that returns every row of
that side.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.evaluate import can_fail, is_volatile
from runnel.expressions.nodes import Expression, columns_of, conjuncts
from runnel.foreign.fragment import FragmentEngine, Unrenderable
from runnel.planner.physical.choose import needed_rows
from runnel.planner.rewriting import conjunction, renumber, substitute
from runnel.relation.nodes import (
    MARKS,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
    Union,
    references,
    walk,
)


def split_plan(engine: FragmentEngine, node: Relation) -> Relation | None:
    """The plan over a larger sub-plan that the engine runs; None where there is none."""
    if not isinstance(node, Scan | Filter | Limit) or not _has_all(engine, node):
        return None
    match node:
        case Scan():
            return _split_scan(engine, node)
        case Filter():
            return _split_filter(engine, node)
        case Limit():
            return _split_top(engine, node)


def runs(engine: FragmentEngine, relation: Relation) -> bool:
    """Whether an engine can run a sub-plan."""
    try:
        engine.fragment(relation)
    except Unrenderable:
        return False
    return True


def _has_all(engine: FragmentEngine, node: Relation) -> bool:
    scans = [item for item in walk(node) if isinstance(item, Scan)]
    return bool(scans) and all(engine.can_read(scan.table) for scan in scans)


def _split_filter(engine: FragmentEngine, node: Filter) -> Relation | None:
    parts = conjuncts(node.condition)
    there = [
        part for part in parts if is_free(part) and runs(engine, replace(node, condition=part))
    ]
    if not there or len(there) == len(parts):
        return None
    here = conjunction(part for part in parts if part not in there)
    condition = conjunction(there)
    assert here is not None
    assert condition is not None
    return replace(node, input=replace(node, condition=condition), condition=here)


def is_free(part: Expression) -> bool:
    """Whether a conjunct may be evaluated before the conjuncts that precede it."""
    return not can_fail(part) and not is_volatile(part)


def unpredicated(node: Scan) -> tuple[Scan, Expression] | None:
    """A scan without its predicate, and the predicate over the scan's columns: the columns of
    `node`, then further columns that only the predicate reads."""
    if node.predicate is None or node.limit is not None or node.malformed is not None:
        return None
    columns = (*node.columns, *sorted(columns_of(node.predicate) - set(node.columns)))
    indexes = {column: index for index, column in reversed(list(enumerate(columns)))}
    return replace(node, columns=columns, predicate=None), renumber(node.predicate, indexes)


def _split_scan(engine: FragmentEngine, node: Scan) -> Relation | None:
    found = unpredicated(node)
    if found is None:
        return None
    bare, condition = found
    filtered = _split_filter(
        engine, Filter(input=bare, condition=condition, position=node.position)
    )
    if filtered is None:
        return None
    columns = references(bare.fields)[: len(node.columns)]
    return Project(
        input=filtered,
        expressions=columns,
        names=tuple(item.name for item in columns),
        position=node.position,
    )


def _split_top(engine: FragmentEngine, node: Limit) -> Relation | None:
    sort = node.input
    if (
        not isinstance(sort, Sort)
        or not isinstance(sort.input, Project)
        or sort.emission is not None
    ):
        return None
    project = sort.input
    if any(map(is_volatile, project.expressions)):
        return None
    keys = tuple(
        key.mapped(lambda item: substitute(item, project.expressions)) for key in sort.keys
    )
    top = replace(node, input=replace(sort, input=project.input, keys=keys))
    return replace(project, input=top) if runs(engine, top) else None


_KEEPS_EVERY_LEFT_ROW = (JoinKind.LEFT, JoinKind.SINGLE, *MARKS)


def with_top_below(engine: FragmentEngine, node: Relation) -> Limit | None:
    """A sort with a LIMIT, with a copy of it moved to where the engine can run it; None if there is
    no such position."""
    if (
        not isinstance(node, Limit)
        or node.count is None
        or not isinstance(node.input, Sort)
        or node.input.emission is not None
    ):
        return None
    sort, above = node.input, node.input.input
    below, keys = above, sort.keys
    if isinstance(above, Project):
        if any(map(is_volatile, above.expressions)):
            return None
        known = above.expressions
        below, keys = (
            above.input,
            tuple(key.mapped(lambda item: substitute(item, known)) for key in keys),
        )
    top = Limit(
        input=replace(sort, input=below, keys=keys),
        count=needed_rows(node.count, node.offset),
        offset=None,
    )
    changed = _topped(engine, below, top)
    if changed is None:
        return None
    return replace(
        node,
        input=replace(
            sort, input=replace(above, input=changed) if isinstance(above, Project) else changed
        ),
    )


def _topped(engine: FragmentEngine, below: Relation, top: Limit) -> Relation | None:
    sort = top.input
    assert isinstance(sort, Sort)

    def first_of(part: Relation) -> Relation:
        found = replace(top, input=replace(sort, input=part))
        return found if _has_all(engine, part) and runs(engine, found) else part

    if isinstance(below, Union):
        parts = tuple(map(first_of, below.parts))
        return (
            None
            if all(new is old for new, old in zip(parts, below.parts, strict=True))
            else replace(below, parts=parts)
        )
    if isinstance(below, Join) and below.kind in _KEEPS_EVERY_LEFT_ROW:
        read = set().union(*(columns_of(key.expression) for key in sort.keys))
        left = first_of(below.left) if read <= set(range(len(below.left.fields))) else below.left
        return None if left is below.left else replace(below, left=left)
    return None
