"""File mappings in follow mode: new and growing files as a stream.

Imports `connectors/files` (table, storage), the parsers of `connectors/files/records` and the
engine's contracts `connector` and `processor`.

Begin with `table.FollowSource`, which has a partition for each growing file. `listing` lists the
path repeatedly and assigns the files; `partition` emits their complete records. `file` tracks one
file: the offset read so far, and whether it was replaced.
"""
