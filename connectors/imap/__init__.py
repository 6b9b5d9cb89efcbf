"""TYPE IMap: tables with a primary key, in memory or on disk.

Imports `connectors/imap/storage`, `connectors/options.py`, and the engine's basics, contracts,
`columns` and `expressions`. `connectors/kafka` uses its `columns` and `layout`, since keys and
values of messages are described in the same way.

Begin with `connector` and `table`, what queries and statements see of a map. `scan`,
`index_scan` and `changes` read it, `sink` writes for jobs; `layout` describes the fields of a
row. docs/design/002-maps.md explains the design.
"""
