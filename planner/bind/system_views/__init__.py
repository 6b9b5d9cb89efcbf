"""The catalog under the names that DuckDB, PostgreSQL and SQLite have for it.

`views` finds a view by its name; read it first. `duckdb` and `postgresql` have the views of each
system, `constraints` the constraints of tables. Imports `planner/bind/tables`,
`planner/bind/binders.py`, `planner/parse` and `planner/explain`.
"""
