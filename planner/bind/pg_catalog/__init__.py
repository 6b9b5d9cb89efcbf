"""The catalog as PostgreSQL has it: pg_class, pg_attribute and others, and the functions over them.

`objects` numbers the objects of a snapshot of the catalog; read it first. `types` has the types,
`relations` and `others` the rows of the tables, `tables` the tables by name, `lookups` the
functions that find an object by its number. Imports `planner/bind/system_views/duckdb.py`,
`planner/bind/system_views/constraints.py`, `planner/bind/tables`, `planner/bind/binders.py`,
`planner/parse` and `planner/explain`.
"""
