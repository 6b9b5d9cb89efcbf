"""TYPE Kafka: topics as streams, and as sinks.

Imports the payload codecs of `connectors/files` (Avro, CSV, JSON, lines), `columns` and
`layout` of `connectors/imap`, `connectors/options.py`, `connectors/debezium.py`, and the engine's
basics, contracts, `columns` and `expressions`. The client library is imported in `client` on
first use.

Begin with `connector`, then `source` (one consumer per partition) and `payloads` (message bytes
to columns and back). `sink` serves light jobs; `job_sink` and `transactions` commit each epoch
of a durable job as one Kafka transaction.
"""
