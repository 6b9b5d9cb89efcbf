"""The queues between processors, and both of their ends.

Imports the contracts `processor` and `dag`, `engine/columns`, `engine/watermarks.py`, and
`tasklet` of `engine/runtime/tasklets` to wake the consumer.

Begin with `queues.Queue`: bounded, one producer, one consumer, no lock. `inputs` merges the
queues of an edge and turns control items into events; `outbox` routes output to queues.
"""
