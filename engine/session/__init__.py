"""The state of a connection: its directory, user functions, and opened tables.

Imports the engine's basics, `catalog`, `connector`, `columns`, `expressions`, `storage`,
`connectors/registry.py`, `types` of `planner/parse`, and one file of `engine/statements`;
`engine/database.py` for type checkers only.

Begin with `directory.Directory`: the lock and the saved catalog of a durable connection.
`table_options` opens a mapping's table with its watermark; `unavailable` stands in for a saved
mapping that can't be opened; `functions` registers Python functions.
"""
