"""A session and the state of its connection: directory, user functions, and opened tables.

Imports the engine's basics, `catalog`, `connector`, `columns`, `expressions`, `snapshots`,
`storage`, `duckdb`, `results`, `connectors/registry.py`, `connectors/arrow` and
`connectors/duckdb`, `types` of `planner/parse`, `engine/settings.py` and `failures` of
`engine/runtime/tasklets`; of the planner `cache` and the entry point `planner`; for type checkers
only `environment` and `plans` of the planner, `engine/database.py` and `named_jobs`.

Begin with `session.Session`: one client with its rights and settings, and all that a statement
handler may use of the database. `directory.Directory` is the lock and the saved catalog of a
durable connection; `directory_version` is the version of its format; `backup` copies it;
`table_options` opens a mapping's table with its watermark, or a substitute for a saved mapping that
can't be opened; `functions` registers Python functions; `state_tables` reads JOB_STATE; `writers`
has the numbers of outside writers' batches.
"""
