"""JSON files: one object per line, or an array of objects.

Imports `connectors/files` (format contract, conversion, options), the record parser in
`connectors/files/records`, and the engine's `catalog`, `columns` and `expressions`.

Begin with `json_format.JsonFormat`. `json_records` cuts text into chunks of whole records;
`json_uniform` is the fast path for lines of one layout, Arrow's reader the common one, and
`json_values` the path through Python for the rest. `json_lines` parses record by record.
"""
