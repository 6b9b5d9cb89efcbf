"""Rows of open groups: small batches are worked on together, and before a watermark asks for
them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runnel.columns.batches import MAX_ROWS
from runnel.columns.key_hash import keyed_state
from runnel.expressions.aggregates.states import Count, SumInteger
from runnel.processors.grouping.group_state import GroupLayout
from runnel.processors.panes import open_panes
from runnel.processors.panes.due_times import DueTimes
from runnel.processors.time_windows import timed_groups
from runnel.processors.time_windows.timed_groups import TimedGroups, is_rows
from runnel.relation.streams import TimeBound
from runnel.snapshots.store import share_of

LAYOUT = GroupLayout(
    (pa.int64(), pa.int64()), (pa.int64(),), (Count(True), SumInteger()), ((), (0,))
)
DUE = 100
KEYS = 500


def groups() -> TimedGroups:
    return TimedGroups(LAYOUT, DueTimes([(0, TimeBound(0))]), lambda rows: None)


def add(open_groups: TimedGroups, rows: int, keys: int = KEYS) -> None:
    columns = [
        pa.array([DUE] * rows),
        pa.array([i % keys for i in range(rows)]),
        pa.array([1] * rows),
    ]
    open_groups.add(columns, rows, [DUE])


def given(open_groups: TimedGroups) -> dict[int, tuple[int, int]]:
    """Of each key the count and the sum, when the window is complete."""
    found = open_groups.take_due([DUE + 1])
    assert found is not None
    columns = [found.keys[1], *(column for columns in found.columns for column in columns)]
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len({key for key, *_ in rows}) == len(rows)
    return {key: (count, int(total)) for key, count, total in rows}


def test_few_rows_wait_for_more() -> None:
    waiting = groups()
    add(waiting, timed_groups.EAGER_ROWS - 1)
    waiting.collapse_early()
    assert waiting.open_groups == 0
    assert waiting.size[0] == timed_groups.EAGER_ROWS - 1


def test_small_batches_are_grouped_together_when_nothing_else_is_to_do() -> None:
    waiting = groups()
    for _ in range(timed_groups.EAGER_ROWS // 100 + 1):
        waiting.collapse_early()
        add(waiting, 100, keys=10)
    waiting.collapse_early()
    assert waiting.open_groups == 10, "one group-by for all of them"
    assert waiting.size[0] == 10, "no row is left for the watermark to group"
    each = 10 * (timed_groups.EAGER_ROWS // 100 + 1)
    assert given(waiting) == dict.fromkeys(range(10), (each, each))


def test_what_is_grouped_early_is_merged() -> None:
    waiting = groups()
    for number in range(1, 30):
        add(waiting, timed_groups.EAGER_ROWS)
        waiting.collapse_early()
        assert waiting.size[0] == waiting.open_groups <= timed_groups.FEW_RUNS * KEYS, number
    rows = 29 * timed_groups.EAGER_ROWS
    found = given(waiting)
    assert sum(count for count, _ in found.values()) == rows
    assert all(count == total for count, total in found.values())
    assert len(found) == KEYS


def test_many_groups_are_not_merged_for_a_few_rows() -> None:
    waiting = groups()
    many = 8 * timed_groups.EAGER_ROWS
    add(waiting, many, keys=many)
    waiting.collapse_early()
    add(waiting, 10, keys=10)
    waiting.collapse()
    large = waiting._runs[0]
    assert large.left == many
    for _ in range(20):
        add(waiting, timed_groups.EAGER_ROWS, keys=10)
        waiting.collapse_early()
        assert waiting._runs[0] is large
        assert len(waiting._runs) <= timed_groups.FEW_RUNS
    rows = 10 + 20 * timed_groups.EAGER_ROWS
    found = given(waiting)
    assert len(found) == many
    assert sum(found[key][0] - 1 for key in range(10)) == rows


def test_keys_that_no_pane_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise rows of other keys would not be accumulated in panes any more."""
    monkeypatch.setattr(open_panes, "ROOM", 1)
    monkeypatch.setattr(open_panes, "ROOM_PER_ROW", 2)
    waiting = groups()
    rows = timed_groups.EAGER_ROWS
    for number in range(4):
        keys = [10**12 * number + 10**6 * i for i in range(rows)]
        columns = [pa.array([DUE] * rows), pa.array(keys), pa.array([1] * rows)]
        waiting.add(columns, rows, [DUE])
        assert waiting._panes is not None
        assert waiting._panes.rows == rows
        assert given(waiting) == dict.fromkeys(keys, (1, 1))


def test_what_stays_is_saved_as_the_same_batches() -> None:
    """So a snapshot needn't write them again; what was taken or added is saved anew."""
    waiting = groups()
    make = lambda batch: batch  # noqa: E731
    add(waiting, 1000)
    waiting.collapse()
    first = list(waiting.saved(make))
    again = list(waiting.saved(make))
    assert [batch.num_rows for batch in first] == [KEYS]
    assert [one is other for one, other in zip(first, again, strict=True)] == [True]
    add(waiting, 10)
    waiting.collapse()
    more = list(waiting.saved(make))
    assert more[0] is first[0]
    assert [batch.num_rows for batch in more] == [KEYS, 10]
    later = [pa.array([DUE + 5]), pa.array([1]), pa.array([1])]
    waiting.add(later, 1, [DUE + 5])
    assert waiting.take_due([DUE + 1]) is not None
    (rest,) = waiting.saved(make)
    assert rest.column(0).to_pylist() == [DUE + 5]


def test_rows_that_would_make_many_groups_are_saved_as_they_are() -> None:
    """Collapsing them for a snapshot would have the same groups put together more often. What was
    saved stays the same."""
    waiting = groups()
    make = lambda batch: batch  # noqa: E731
    add(waiting, 100, keys=100)
    add(waiting, 50, keys=50)
    (rows,) = waiting.saved(make)
    assert (is_rows(rows), rows.num_rows, waiting.open_groups) == (True, 150, 0)
    add(waiting, 7, keys=7)
    before, new = waiting.saved(make)
    assert before is rows
    assert (is_rows(new), new.num_rows) == (True, 7)
    restored = groups()
    for batch in (before, new):
        restored.add(batch.columns, batch.num_rows, [DUE])
    assert given(restored) == given(waiting)
    add(waiting, 20, keys=20)
    (last,) = waiting.saved(make)
    assert (is_rows(last), last.num_rows) == (True, 20)


def test_rows_of_few_groups_are_collapsed_for_a_snapshot() -> None:
    waiting = groups()
    add(waiting, 10 * KEYS)
    waiting.collapse()
    add(waiting, timed_groups.ROWS_PER_SAVED_GROUP * KEYS)
    found = list(waiting.saved(lambda batch: batch))
    assert [(is_rows(batch), batch.num_rows) for batch in found] == [(False, KEYS)] * 2


def test_runs_come_back_as_the_runs_they_were() -> None:
    """Putting them together again would take longer than all else at a restore."""
    waiting = groups()
    waiting.saver = "1/2"
    many = 3 * MAX_ROWS
    add(waiting, many, keys=many)
    for _ in range(3):
        waiting.collapse()
        add(waiting, 10, keys=10)
    state = list(waiting.saved(lambda batch: keyed_state(batch, "k0", "k1")))
    assert [batch.num_rows for batch in state] == [MAX_ROWS] * 3 + [10, 10]
    restored = groups()
    for batch in reversed(state):
        # As many processors as there were: each has what it had.
        assert share_of(batch, 0, 2).num_rows == 0
        share = share_of(batch, 1, 2)
        if is_rows(share):
            restored.add(share.columns, share.num_rows, [DUE])
        else:
            restored.restore(share)
    assert restored.size[0] == many + 20
    assert not restored.open_groups
    restored.end_restore()
    assert sorted(run.left for run in restored._runs) == [10, many]
    found = given(restored)
    assert len(found) == many
    assert found[0] == (4, 4)
    assert found == given(waiting)


def test_other_numbers_of_processors_divide_what_was_saved() -> None:
    waiting = groups()
    waiting.saver = "0/1"
    add(waiting, 1000)
    waiting.collapse()
    (state,) = waiting.saved(lambda batch: keyed_state(batch, "k0", "k1"))
    shares = [share_of(state, number, 3) for number in range(3)]
    assert all(share.num_rows for share in shares)
    assert sum(share.num_rows for share in shares) == KEYS
