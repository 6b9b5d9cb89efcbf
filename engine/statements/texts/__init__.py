"""Statements about texts of the catalog and objects without rows: macros, functions, sequences and
comments.

Imports `engine/session`, `engine/statements`, `connectors/duckdb` and the contracts, and `parse`
and `plans` of the planner. Begin with `macros.create_macro`."""
