"""The runtime: how the processors of a DAG are called, by whom and when.

`template` prepares a DAG once; `execution` makes its processors, tasklets and queues for one run; a `processor_tasklet` calls
one processor; tasklets are called by the thread that fetches (`caller`), by the pool of `workers`, by a thread of their own
(`dedicated`) or by the `simulation`. docs/design/001-runtime.md tells the whole story.
"""
