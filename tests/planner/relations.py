"""Relations built by hand for tests of rules."""

from __future__ import annotations

from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.explain.explain import tree_text
from runnel.planner.explain.nodes import describe
from runnel.relation.nodes import Filter, Join, JoinKind, Project, Relation, Scan
from runnel.relation.subqueries import InSubquery
from runnel.sqltypes import BOOLEAN, INTEGER, VARCHAR
from tests.sample_tables import companies, trades


def scan(table) -> Scan:
    return Scan(table=table, columns=tuple(range(len(table.columns))))


def column(relation: Relation, name: str, offset: int = 0) -> Column:
    index = [item.name for item in relation.fields].index(name)
    return Column(index=index + offset, name=name, type=relation.fields[index].type)


def number(value: int) -> Literal:
    return Literal(value=value, type=INTEGER)


def text(value: str) -> Literal:
    return Literal(value=value, type=VARCHAR)


TRUE = Literal(value=True, type=BOOLEAN)
FALSE = Literal(value=False, type=BOOLEAN)
UNKNOWN = Literal(value=None, type=BOOLEAN)


def project(relation: Relation, **expressions: Expression) -> Project:
    return Project(
        input=relation, expressions=tuple(expressions.values()), names=tuple(expressions)
    )


def where(relation: Relation, *parts: Expression) -> Filter:
    return Filter(
        input=relation, condition=parts[0] if len(parts) == 1 else build.call("and", parts)
    )


def both() -> tuple[Scan, Scan, int]:
    left, right = scan(trades()), scan(companies())
    return left, right, len(left.fields)


def join(kind: JoinKind, *parts: Expression) -> Join:
    left, right, width = both()
    condition = build.call("eq", [column(left, "ticker"), column(right, "__key", width)])
    for part in parts:
        condition = build.call("and", [condition, part])
    return Join(kind=kind, left=left, right=right, condition=condition)


def shown(relation: Relation) -> str:
    return "\n".join(tree_text(describe(relation)))


def kinds(relation: Relation) -> list[JoinKind]:
    own = [relation.kind] if isinstance(relation, Join) else []
    return own + [kind for item in relation.inputs for kind in kinds(item)]


def fallible(relation: Relation) -> Expression:
    quotient = build.call("divide", [number(10), column(relation, "quantity")])
    return build.call("gt", [quotient, number(1)])


def in_companies(operand: Expression) -> InSubquery:
    right = scan(companies())
    return InSubquery(
        operands=(operand,), relation=project(right, k=column(right, "__key")), type=BOOLEAN
    )
