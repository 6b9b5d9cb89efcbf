"""State that operators share: pending output, buffered rows, late rows.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, `relation`, `storage`,
and `partition_watermarks` of `engine/processors/sources`.

Begin with `buffered`, the base of operators whose results wait for room in the outbox.
`until_watermark` adds waiting for a watermark with the rows in `row_buffer`; `late_output`
counts, logs and emits late rows.
"""
