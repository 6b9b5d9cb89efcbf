"""Named jobs that run on Spark as a whole, bounded or streaming.

Imports `connectors/spark` with `session` and `fragments`, `connectors/files` for mapped paths,
and of the engine `foreign` (the job contract), `relation`, `rendering`, `columns`,
`expressions`, `storage` and the contracts.

Begin with `runtime.SparkJobs`, which prepares a job. `batch` writes one DataFrame; `streaming`
runs one streaming query and commits its batches through `sink`; `replay` reads the input again
for VERIFY JOB. docs/design/017-jobs-on-spark.md has the design.
"""
