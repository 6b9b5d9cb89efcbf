"""Record batches as numpy arrays, key hashes, and SQL types as JSON.

Imports `engine/sqltypes.py` only.

Begin with `batches`: `MAX_ROWS`, batches without columns, and views of Arrow columns as numpy
arrays without a copy. `key_hash` assigns rows to partitions; snapshots depend on its values, so
it must never change. `type_records` writes types to files and messages.
"""
