"""Binding of the macros of CREATE MACRO.

Imports `bind/scope` and `bind/binders`, `planner/parse`, `engine/relation` (nodes) and the catalog.

Begin with `user_macros.body_of`, the expansion of a call; `table_macros` has calls in FROM and the
check of a new macro."""
