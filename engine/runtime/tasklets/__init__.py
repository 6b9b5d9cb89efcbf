"""Tasklets: the state machines that call processors.

Imports `edges`, `idle` of `threads` and `latency` of `engine/runtime`, the contract
`engine/processor.py`, and `sinks` of `engine/processors`.

Begin with `tasklet.Tasklet`, the protocol to call, park and wake without a lock, then
`processor_tasklet`, which calls one processor. `snapshot_steps` restores and saves state at
barriers; `failures` turns exceptions of processors into PEP 249 errors.
"""
