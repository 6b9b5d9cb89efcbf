"""Known differences of a query on Spark that cannot be avoided; EXPLAIN shows them.

docs/spark_differences.md describes them in detail.
"""

from __future__ import annotations

from runnel.relation.nodes import Aggregate, Join, Relation, walk
from runnel.relation.streams import AssignWindows
from runnel.sqltypes import Kind

SAFE_DIGITS = 28
"""Sums of DECIMALs with at most this number of digits exceed 38 digits only over ten thousand
million rows."""


def warnings_of(relation: Relation) -> list[str]:
    """A line for each difference."""
    return [*_of_sums(relation), *_of_streams(relation)]


def _of_sums(relation: Relation) -> list[str]:
    found = []
    for node in walk(relation):
        for call in node.aggregates if isinstance(node, Aggregate) else ():
            argument_type = call.arguments[0].type if call.arguments else None
            is_long = (
                argument_type is not None
                and argument_type.kind is Kind.DECIMAL
                and argument_type.precision > SAFE_DIGITS
            )
            if is_long and call.function in ("sum", "avg"):
                shown = f"{call.function.upper()}({argument_type})"
                found.append(
                    f"{shown} also overflows where the sum of a part of the rows has more than 38 "
                    "digits"
                )
    return list(dict.fromkeys(found))


def _of_streams(relation: Relation) -> list[str]:
    if not relation.is_unbounded:
        return []
    found = []
    streamed = [node for node in walk(relation) if node.is_unbounded]
    if any(isinstance(node, Aggregate | Join) for node in streamed):
        found.append("a row is late one batch later than on tasklets")
    if any(isinstance(node, AssignWindows) for node in streamed):
        found.append(
            "rows without event time are in no window, where tasklets have a group of them"
        )
    if any(
        isinstance(node, Join) and all(side.is_unbounded for side in node.inputs)
        for node in streamed
    ):
        found.append("a time bound of a join that is out of range is no error")
    return found
