"""Definitions of tables (CREATE TABLE), changes of rows that a query computes, transactions, and
COPY TO.

Imports `plans` and `parse` of the planner, `connectors/duckdb`, `connectors/files`, `session`,
`named_jobs`, `results`, `runtime`, `processors/library`, the contracts, and `call`,
`definitions`, `queries`, `writes`, `jobs` and `mapping_steps` of `engine/statements`. Begin with
`definitions`, then `changes`; `job_users` finds the jobs that use a table; `copy_to` writes the
rows of a query to a file; `transactions` has BEGIN and COMMIT.
"""
