"""The beginning of a job: scans, generated rows, and watermarks.

Imports the contracts `connector`, `processor` and `dag`, `columns`, `expressions`, `relation`,
`foreign`, `engine/watermarks.py`, and of `processors` the root files, `stateful`, and one file each
of `joins` and `sinks`.

Begin with `scan`: partitions are assigned to processors, and filter and projection are applied
while reading. `watermark_scan` is a scan with `scan_watermarks`, computed by
`partition_watermarks`; `scan_state` saves positions. `malformed_records` routes unreadable records
to a side output.
"""
