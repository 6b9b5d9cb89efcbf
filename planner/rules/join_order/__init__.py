"""The order of inner joins: the order with the smallest results, without avoidable cross products.

Imports `planner/estimates.py`, `planner/rewriting.py`, the bounds of `planner/event_time`,
`engine/relation` and `engine/expressions`.

Begin with `order`, the rule. `graph` divides a tree of joins, `sizes` estimates joins of its
relations, `exact` and `greedy` search for an order, `building` makes joins of it, and `streams`
orders joins of streams. docs/design/008-subqueries.md has the design.
"""
