"""The states of a tasklet that calls a processor."""

from __future__ import annotations

from enum import IntEnum


class TaskletState(IntEnum):
    """The next step of a tasklet."""

    INIT = 0
    """Call `init` once; then RESTORE if the processor is Stateful and the job starts from a
    snapshot, else NEXT."""
    RESTORE = 1
    """Call `restore_snapshot` with each batch of state; then FINISH_RESTORE."""
    FINISH_RESTORE = 2
    """Call `finish_restore` until it returns True; then NEXT."""
    NEXT = 3
    """Choose the next state: COMMIT if the outcome of the snapshot is known, SAVE if it is to be
    taken here, COMPLETE if all inputs ended, ALARM if its time has come, otherwise the state for
    the next event of the inputs; FLUSH if they are empty and there were items since the last FLUSH;
    otherwise wait."""
    PROCESS = 4
    """Call `process` until the inbox is empty; then NEXT."""
    WATERMARK = 5
    """Call `process_watermark` until it returns True; then NEXT."""
    FLUSH = 6
    """Call `flush` until it returns True; then NEXT."""
    FORWARD = 7
    """Call `flush` until it returns True, for IDLE also `on_idle`, then offer IDLE or a
    LatencyMarker to all outputs until it is accepted; then NEXT. Or offer ACTIVE, before the first
    item after IDLE; then PROCESS or WATERMARK, or NEXT."""
    COMPLETE_EDGE = 8
    """Call `complete_edge` until it returns True; then NEXT."""
    COMPLETE = 9
    """Call `complete` until it returns True; then SAVE_LAST if snapshots are taken, else END.
    Between two calls, COMMIT or SAVE if one is due, and EPOCH if the epoch of a source ends."""
    SAVE = 10
    """Call `save_snapshot`, or `flush` if the processor is not Stateful, until it returns True;
    then PREPARE if the processor is Transactional, else EMIT_BARRIER."""
    PREPARE = 11
    """Call `prepare_commit` until it returns True; then EMIT_BARRIER."""
    EMIT_BARRIER = 12
    """Offer the barrier to all outputs until it is accepted; then NEXT, or AWAIT_COMMIT after a
    terminal one."""
    COMMIT = 13
    """Call `commit` until it returns True, if the processor is Transactional; then return to the
    previous state: NEXT or END."""
    AWAIT_COMMIT = 14
    """Wait until the snapshot is durable or discarded; then COMMIT, and after it END."""
    SAVE_LAST = 15
    """Call `save_snapshot` until it returns True, for later snapshots, if the processor is
    Stateful; then AWAIT_COMMIT if a commit is outstanding, else END."""
    ALARM = 16
    """Call `on_alarm` until it returns True; then NEXT."""
    EPOCH = 17
    """Call `process_epoch` until it returns True; then NEXT, or COMPLETE in a source."""
    END = 18
    """The processor is closed and the outputs are ended."""


# Global names, since an attribute of an Enum class is slow and a step reads several.
INIT, RESTORE, FINISH_RESTORE, NEXT, PROCESS, WATERMARK, FLUSH, FORWARD = list(TaskletState)[:8]
(
    COMPLETE_EDGE,
    COMPLETE,
    SAVE,
    PREPARE,
    EMIT_BARRIER,
    COMMIT,
    AWAIT_COMMIT,
    SAVE_LAST,
    ALARM,
    EPOCH,
    END,
) = list(TaskletState)[8:]
