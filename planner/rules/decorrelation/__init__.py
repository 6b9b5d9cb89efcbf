"""Subqueries and LATERAL become joins (Neumann and Kemper, BTW 2015).

Imports `planner/rules`, `planner/rewriting.py`, `engine/relation` and `engine/expressions`.

Begin with `subqueries`, the rule, then `correlation`, which separates the correlated conditions
of a subquery. `hoisting` makes a subquery a join, `anchoring` supplies the domain of outer
values, `laterals` handles LATERAL. docs/design/008-subqueries.md has the design.
"""
