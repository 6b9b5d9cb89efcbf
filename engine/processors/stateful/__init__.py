"""State that operators share: pending output, buffered rows, late rows.

Imports the contracts `processor` and `dag`, `columns`, `expressions`, `relation`, `storage`,
and `partition_watermarks` of `engine/processors/sources`.

Begin with `buffered`, the only base class that operators share: results wait for room in the
outbox. Everything else is a part that an operator owns: `late_rows` counts, logs and emits late
rows, `state_account` limits the memory of state, `row_buffer` holds rows until a watermark.
`until_watermark` is the operator of such rows; a `RowCompletion` computes its results.
"""
