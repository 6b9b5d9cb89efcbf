"""The catalog under the names that DuckDB, PostgreSQL and SQLite have for it.

`views` finds a view by its name; read it first. `duckdb` has the views of DuckDB and SQLite,
`constraints` the constraints of tables; the ones of PostgreSQL are in
`planner/bind/pg_catalog/`. Imports `planner/bind/pg_catalog`, `planner/bind/tables`,
`planner/bind/binders.py`, `planner/parse` and `planner/explain`.
"""
