"""Named jobs that run a hand-built DAG instead of a query.

Imports `dag`, `processor`, `expressions`, `foreign`, `relation` and `storage`, `processors` for the
classes of suppliers, `runtime`, `snapshots`, and of `named_jobs` the record and the prepared job.

Begin with `preparation.prepared_dag`; `dag_record` has the stored form of a DAG, `endpoints` the
checks of a DAG's sources and sinks.
"""
