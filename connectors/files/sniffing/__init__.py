"""Sniffing: finds the encoding, the CSV dialect and the header of files from a bounded sample.

Imports `connectors/files`, and the engine's basics, `catalog` and `expressions`; DuckDB's sniffer
is loaded on first use. `connector` and `hive` use this folder when a mapping is created.

Begin with `sniff.sniffed`, which returns what was found as a value. `encoding` recognises byte
order marks, `contents` the formats of binary files, `delimiter` and `header` the dialect of CSV,
`dates` the formats of dates and timestamps.
"""
