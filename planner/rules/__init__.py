"""The rewrites of a query, as a tuple that can be printed.

A rule is a pure function from relation to relation that keeps the result: the same rows, the same columns in the same
order. Rules are applied in the order of RULES, all of them again until nothing changes, at most MAX_ROUNDS times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from runnel.errors import internal
from runnel.relation import Project, Relation, references

MAX_ROUNDS = 5


class Rule(NamedTuple):
    """A rewrite and its name. A necessary one makes the query runnable; the others only make it faster."""

    name: str
    rewrite: Callable[[Relation], Relation]
    is_necessary: bool = False

    def __repr__(self) -> str:
        return self.name


RULES: tuple[Rule, ...] = ()

NECESSARY_RULES = tuple(rule for rule in RULES if rule.is_necessary)


def apply(relation: Relation, rules: Iterable[Rule] = RULES) -> Relation:
    """The relation after the rules, with the same fields."""
    fields = relation.fields
    ordered = tuple(rules)
    for _ in range(MAX_ROUNDS):
        before = relation
        for rule in ordered:
            relation = rule.rewrite(relation)
            if [item.type for item in relation.fields] != [item.type for item in fields]:
                raise internal(f'rule "{rule.name}" changed the columns of the result')
        if relation == before:
            break
    if relation.fields != fields:
        names = tuple(item.name for item in fields)
        relation = Project(input=relation, expressions=references(relation.fields), names=names)
    return relation
