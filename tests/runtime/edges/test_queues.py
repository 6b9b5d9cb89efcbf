"""Queues, outboxes and inputs, without any threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from runnel.columns.key_hash import Partitioning, partition
from runnel.dag import Routing
from runnel.errors import InternalError, OperationalError
from runnel.processor import DONE, IDLE, Barrier, Watermark
from runnel.runtime.edges.inputs import InputEdge, Inputs
from runnel.runtime.edges.outbox import make_outbox
from runnel.runtime.edges.queues import BatchInbox, Queue
from runnel.runtime.tasklets.tasklet import NO_PROGRESS, Progress, Tasklet, take_turn
from tests.runtime.sample_processors import numbers, values_of


class Idler(Tasklet):
    """Does nothing; notes whether it was made ready."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.owner = self  # type: ignore[assignment]
        self.calls = 0
        self.readied = 0
        self.on_call: Any = None

    def call(self) -> Progress:
        self.calls += 1
        if self.on_call is not None:
            self.on_call()
        return NO_PROGRESS

    def ended(self) -> None:
        raise AssertionError

    def ready(self, tasklet: Tasklet) -> None:
        assert tasklet is self
        self.readied += 1


def queue(capacity: int = 2) -> Queue:
    made = Queue(capacity)
    made.producer, made.consumer = Idler("a"), Idler("b")
    return made


def test_bounded_queue_wakes_either_side() -> None:
    one = queue(1)
    consumer: Any = one.consumer
    producer: Any = one.producer
    assert take_turn(consumer) is NO_PROGRESS
    assert one.offer(numbers(1))
    assert consumer.readied == 1
    take_turn(producer)
    assert not one.offer(numbers(2))
    assert repr(one) == "<queue a → b 1/1 producer waits>"
    one.items.popleft()
    one.made_room()
    assert producer.readied == 1
    assert repr(one) == "<queue a → b 0/1>"
    one.made_room()
    assert producer.readied == 1


def test_end_always_has_a_place() -> None:
    one = queue(1)
    one.offer(numbers(1))
    one.finish(DONE)
    assert len(one) == 2


def test_wake_between_call_and_parking_is_not_lost() -> None:
    tasklet = Idler("a")
    tasklet.on_call = tasklet.wake
    assert take_turn(tasklet) is Progress.MADE_PROGRESS
    assert not tasklet.is_parked
    tasklet.on_call = None
    assert take_turn(tasklet) is NO_PROGRESS
    assert tasklet.is_parked
    tasklet.wake()
    tasklet.wake()
    assert tasklet.readied == 1
    assert not tasklet.is_parked


def test_abandoned_queue_takes_everything_and_keeps_nothing() -> None:
    one = queue(1)
    one.offer(numbers(1))
    one.abandon()
    for _ in range(5):
        assert one.offer(numbers(2))
    assert len(one) == 0
    assert one.is_abandoned


def rows(one: Queue) -> list[Any]:
    return [values_of([item]) if isinstance(item, pa.RecordBatch) else item for item in one.items]


def outbox(routing: Routing, *queues: Queue, keys: tuple[str, ...] = ()) -> Any:
    return make_outbox([(routing, Partitioning(keys), queues)])


def test_unicast_takes_turns_and_passes_over_full_ones() -> None:
    first, second = queue(1), queue(5)
    box = outbox(Routing.UNICAST, first, second)
    for i in range(4):
        assert box.offer(numbers(i))
    assert (rows(first), rows(second)) == ([[0]], [[1], [2], [3]])
    assert (box.rows, box.batches) == (4, 4)


def test_broadcast_remembers_who_has_it() -> None:
    small, large = queue(1), queue(9)
    box = outbox(Routing.BROADCAST, small, large)
    assert box.offer(numbers(1))
    item = numbers(2)
    assert not box.offer(item)
    assert box.is_partial
    assert not box.offer(item)
    small.items.clear()
    assert box.offer(item)
    assert not box.is_partial
    assert (rows(small), rows(large)) == ([[2]], [[1], [2]])
    assert box.rows == 2


def test_control_items_go_to_all() -> None:
    first, second = queue(), queue()
    box = outbox(Routing.UNICAST, first, second)
    assert box.offer(Watermark(1))
    assert rows(first) == rows(second) == [Watermark(1)]
    box.finish()
    assert rows(first)[-1] is DONE


def test_partitioned_by_the_stable_hash() -> None:
    queues = [queue(9) for _ in range(3)]
    box = outbox(Routing.PARTITIONED, *queues, keys=("x",))
    batch = numbers(*range(50))
    assert box.offer(batch)
    assert [values_of([q.items[0]]) for q in queues] == [
        values_of([part]) for part in partition(batch, [0], 3)
    ]  # type: ignore[list-item]
    with pytest.raises(OperationalError, match='no key column "x"') as caught:
        box.offer(pa.record_batch([pa.array([1])], names=["y"]))
    assert caught.value.detail == 'its columns are "y"'


def test_empty_batches_go_nowhere() -> None:
    one = queue()
    for box in (outbox(Routing.UNICAST, one), outbox(Routing.BROADCAST, one, queue())):
        assert box.offer(numbers())
        assert len(one) == 0


def test_refused_item_must_come_again() -> None:
    for box in (outbox(Routing.UNICAST, queue(1)), outbox(Routing.BROADCAST, queue(1), queue(1))):
        assert box.offer(numbers(1))
        assert not box.offer(numbers(2))
        with pytest.raises(OperationalError, match="another item was offered"):
            box.offer(numbers(3))
        assert not box.offer(numbers(2)), "the same rows will do"


def test_no_such_output() -> None:
    for box, count in (
        (make_outbox([]), 0),
        (outbox(Routing.UNICAST, queue()), 1),
        (outbox(Routing.BROADCAST, queue(), queue()), 1),
    ):
        with pytest.raises(
            OperationalError, match=f"there is no output {count}: the vertex has {count}"
        ):
            box.offer(numbers(1), count)


def inputs(*edges: tuple[int, Sequence[Queue]]) -> Inputs:
    return Inputs(
        [InputEdge(ordinal, priority, queues) for ordinal, (priority, queues) in enumerate(edges)],
        "v",
    )


def fill(one: Queue, *items: Any) -> None:
    one.items.extend(items)


def take(made: Inputs) -> Any:
    """The next event in short: (ordinal, values), ("end", ordinal), or the control item."""
    event = made.next_event()
    if made.inbox:
        values = values_of(list(made.inbox))
        made.inbox.clear()
        return made.ordinal, values
    return ("end", event.ordinal) if isinstance(event, InputEdge) else event


def test_smaller_priority_is_read_to_its_end_first() -> None:
    early, late = queue(), queue()
    made = inputs((1, [late]), (0, [early]))
    fill(late, numbers(1), DONE)
    assert take(made) is None
    fill(early, numbers(2))
    assert take(made) == (1, [2])
    assert take(made) is None
    fill(early, DONE)
    assert [take(made) for _ in range(3)] == [("end", 1), (0, [1]), ("end", 0)]
    assert made.are_done


def test_inputs_of_one_priority_take_turns() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first]), (0, [second]))
    order = []
    for i in range(6):
        fill(first, numbers(i))
        fill(second, numbers(10 + i))
        order.append(take(made)[0])
    assert order == [0, 1, 0, 1, 0, 1]


def test_control_item_is_not_starved_by_batches_of_others() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first, second]))
    fill(first, *(numbers(i) for i in range(3)))
    fill(second, Watermark(1))
    seen = []
    for _ in range(4):
        fill(first, numbers(9))
        seen.append(take(made))
    assert len(second) == 0, "the watermark was taken although the other queue never ran dry"
    assert seen[0] == (0, [0, 1, 2, 9])


def test_batches_come_before_the_control_item_behind_them() -> None:
    one = queue()
    made = inputs((0, [one]))
    fill(one, numbers(1), numbers(2), Watermark(5), numbers(3), IDLE, DONE)
    assert [take(made) for _ in range(6)] == [
        (0, [1, 2]),
        Watermark(5),
        (0, [3]),
        IDLE,
        ("end", 0),
        None,
    ]


def test_aligned_barrier_turns_its_queue_away() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first]), (0, [second]))
    barrier = Barrier(1)
    fill(first, barrier, numbers(1))
    assert take(made) is None
    fill(second, numbers(2), barrier)
    assert [take(made) for _ in range(3)] == [(1, [2]), barrier, (0, [1])]


def test_unaligned_barrier_does_not() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first]), (0, [second]))
    made.aligned = False
    fill(first, Barrier(1), numbers(1))
    assert take(made) == (0, [1])
    fill(second, Barrier(1))
    assert take(made) == Barrier(1)


def test_ended_queue_needs_no_barrier() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first, second]))
    fill(first, Barrier(3))
    fill(second, DONE)
    assert take(made) == Barrier(3)


def test_barriers_must_not_overtake_each_other() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first, second]))
    fill(first, Barrier(3))
    fill(second, Barrier(4))
    with pytest.raises(InternalError, match="overtook"):
        take(made)


def test_edge_without_queues_ends_at_once() -> None:
    made = inputs((0, []))
    assert take(made) == ("end", 0)
    assert made.are_done


def test_who_holds_the_watermark() -> None:
    first, second = queue(), queue()
    made = inputs((0, [first]), (0, [second]))
    fill(first, Watermark(5))
    assert take(made) is None
    assert made.watermark_holder() == "input 1"
    fill(second, Watermark(3))
    assert take(made) == Watermark(3)
    assert made.watermark_holder() == "input 1, from a"


def test_who_holds_the_watermark_of_a_join_that_is_furthest_behind() -> None:
    left, right = queue(), queue()
    made = Inputs([InputEdge(0, 0, [left], ((0, 0),)), InputEdge(1, 0, [right], ((0, 1),))], "a")
    fill(left, Watermark(5))
    assert take(made) == Watermark(5)
    assert made.watermark_holder() == "input 1"
    fill(right, Watermark(9))
    assert take(made) == Watermark(9, 1)
    assert made.watermark_holder() == "input 0, from a"


def test_abandoned_inputs_are_done() -> None:
    one = queue()
    made = inputs((0, [one]))
    fill(one, numbers(1))
    made.abandon()
    assert made.are_done
    assert one.is_abandoned


def test_inbox() -> None:
    inbox = BatchInbox()
    assert inbox.peek() is inbox.poll() is None
    inbox.append(numbers(1))
    assert inbox.peek() is inbox.poll()
    assert len(inbox) == 0
