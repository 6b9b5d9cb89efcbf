"""VERIFY JOB: a job's input is read again and its result compared with its sink.

Imports `engine/statements`, `engine/named_jobs`, `engine/foreign`, `engine/snapshots`,
`engine/runtime`, `engine/results`, `engine/session`, `engine/processors` (sources and sinks),
`engine/relation`, `engine/expressions`, the contracts, and `parse`, `verify`, `physical` and
`plans` of the planner.

Begin with `verify.verify_job`. `verified_snapshot` selects the snapshot that is compared, `replay`
opens the tables as they were then, `options` parses OPTIONS. docs/design/019-verify.md has the
design."""
