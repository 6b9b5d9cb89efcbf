"""Hive partitions: files in folders named `key=value`.

Imports `connectors/files` (table, options, sink) and the engine's contracts, `columns` and
`expressions`. `connectors/lake` uses its path parsing.

Begin with `mapping.open_partitioned`, which finds the keys and their columns. `table` reads
only the folders that a predicate allows and writes rows to the folders of their keys; `paths`
parses and quotes folder names.
"""
