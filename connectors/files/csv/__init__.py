"""CSV files: read as text, converted to the columns' types, and written.

Imports `connectors/files` (format contract, conversion, options), the record parser in
`connectors/files/records`, and the engine's `catalog`, `columns` and `expressions`.

Begin with `csv_format.CsvFormat`, the format contract for CSV. `csv_reader` reads text columns
with Arrow; `csv_records` parses record by record for followed files and malformed records.
`csv_faults` rereads a file to find the line for an error message.
"""
