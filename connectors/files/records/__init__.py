"""Text read record by record, with a policy for malformed records.

Imports `connectors/files` and, through `parsers` only, the record parsers of `csv` and `json`;
`connectors/options.py`; of the engine `catalog`, `connector`, `columns` and `expressions`.
Followed files, Kafka payloads and 'onError' depend on this folder.

Begin with `parser.RecordParser`, the interface; `malformed` has the option 'onError' and the
side output of malformed records; `lines` and `parsers.TextLines` are the simplest format.
"""
