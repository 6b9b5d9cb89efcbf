"""The texts of nodes in state signatures, version 1: a title and properties. The homes of the nodes
register the rules (`planner/operators/passes.py::IDENTITY`).

The texts are stored with snapshots and compared with the texts of a later plan. They were copied
from EXPLAIN's texts once, and stay the same when EXPLAIN changes or a class is renamed, as the
texts of expressions do (`planner/identity/expressions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runnel.columns.type_records import type_spelling
from runnel.errors import internal
from runnel.expressions.nodes import Expression, stored_name
from runnel.planner.identity.expressions import (
    outer_text,
    outer_texts,
    span_text,
    text,
)
from runnel.planner.operators.passes import IDENTITY, STATE_TEXTS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.streams import WindowKind

if TYPE_CHECKING:
    from runnel.processors.sources.partition_watermarks import TimeRule

Properties = dict[str, str]
Identity = tuple[str, Properties]
"""A title, and properties by name; a property with an empty text is left out."""

LATE = "late rows"
"""The property that names the table of late rows. No state depends on it."""

EMISSION = ("early results every", "allowed lateness", "until")
"""Properties that define when results are emitted. No state depends on them."""

JOINS = {
    JoinKind.INNER: "Inner join",
    JoinKind.LEFT: "Left join",
    JoinKind.RIGHT: "Right join",
    JoinKind.FULL: "Full join",
    JoinKind.CROSS: "Cross join",
    JoinKind.SEMI: "Semi join",
    JoinKind.ANTI: "Anti join",
    JoinKind.NULL_ANTI: "Null-aware anti join",
    JoinKind.MARK: "Mark join",
    JoinKind.EXISTS_MARK: "Exists mark join",
    JoinKind.SINGLE: "Single join",
}
WINDOWS = {
    WindowKind.TUMBLE: "Tumble windows",
    WindowKind.HOP: "Hop windows",
    WindowKind.CUMULATE: "Cumulate windows",
    WindowKind.SESSION: "Session windows",
}


def keeps(node: Physical) -> bool:
    """Whether an operator has state: rows, or results of rows."""
    return STATE_TEXTS.find(node) is not None


def node_text(node: Physical, without: Iterable[str] = (LATE,)) -> str:
    """The text of a node, except the properties `without`."""
    rule = IDENTITY.find(node)
    if rule is None:
        raise internal(f"no identity of a node of class {type(node).__name__}")
    title, properties = rule(node)
    shown = [
        f"{name}: {value}" for name, value in properties.items() if value and name not in without
    ]
    return f"{title} ({'; '.join(shown)})"


def columns_text(fields: Iterable[Field]) -> str:
    """The names and types of columns."""
    return ", ".join(f"{stored_name(field.name)} {type_spelling(field.type)}" for field in fields)


def types_text(fields: Iterable[Field]) -> str:
    """The types of columns."""
    return ", ".join(type_spelling(field.type) for field in fields)


def arranged(node: Physical) -> str:
    """The columns of rows that an operator retains, and how they are computed: a key is one of
    them."""
    projections = getattr(node, "projections", None)
    if projections is None:
        return columns_text(node.fields)
    if isinstance(node, physical.PhysicalExpand):
        computed = "; ".join(map(outer_texts, projections))
    else:
        computed = outer_texts(projections)
    return f"{columns_text(node.fields)} from {computed}"


def optional_text(item: Expression | None) -> str:
    return "" if item is None else outer_text(item)


def names_text(fields: Iterable[Field]) -> str:
    return ", ".join(stored_name(field.name) for field in fields)


def chosen(node: Any) -> str:
    """The names of the columns that a node selects; "" if it has all columns."""
    return "" if node.columns is None else names_text(node.fields) or "none"


def pairs(
    left: Sequence[Expression], right: Sequence[Expression], null_safe: tuple[int, ...] = ()
) -> str:
    signs = ["IS NOT DISTINCT FROM" if number in null_safe else "=" for number in range(len(left))]
    return ", ".join(
        f"{text(a)} {sign} {text(b)}" for a, sign, b in zip(left, signs, right, strict=True)
    )


def watermark(rule: TimeRule) -> str:
    return f"{outer_text(rule.time)} - {span_text(rule.lag, rule.time.type)}"


def late_property(*sides: physical.LateOutput | None) -> Properties:
    return next(({LATE: side.table.name} for side in sides if side is not None), {})


def aggregate(node: physical.HashAggregate) -> Identity:
    stages = "one" if node.aggregates and not node.two_stage else ""
    properties = {
        "by": outer_texts(node.keys),
        "compute": outer_texts(node.aggregates),
        "stages": stages,
    }
    return "Aggregate" if node.aggregates else "Distinct", properties
