"""TYPE File: data files as tables, on the local disk or at a URL.

Imports the engine's basics, its contracts, `columns`, `expressions`, `storage`, and of
`processors` the contract of written files; and `connectors/debezium.py`. The files of this folder
load the formats (`csv`, `json`, `columnar`, `records`), `follow` and `hive` when a mapping needs
them. `lake`, `kafka`, `pushed`, `duckdb` and `spark` reuse files of this folder.

Begin with `connector` (from OPTIONS to a table), then `table` (files divided into partitions)
and `format`, the contract of a file format. `storage` opens paths and URLs; `sink` and `output`
write files that become visible only when they are complete.
"""
