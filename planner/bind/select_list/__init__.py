"""Binding of forms of a select list: the columns of * and COLUMNS, and references to aliases.

Imports `planner/parse`, `select_parts` and `grouping` of `planner/bind`, and the engine's basics.

Begin with `stars.StarColumns`.
"""
