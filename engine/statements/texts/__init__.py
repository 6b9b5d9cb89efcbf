"""Statements about the objects of the catalog that are texts in SQL without rows: macros.

Imports `engine/session`, `engine/statements` and the contracts, and `parse` and `plans` of the
planner. Begin with `macros.create_macro`."""
