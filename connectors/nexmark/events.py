"""The events of NEXMark, computed from their numbers: people, auctions and bids of an online
auction.

The benchmark is Tucker, Tufte, Papadimos and Maier's "NEXMark: a benchmark for queries over data
streams"; the numbers below are taken from its widely used generator (of Apache Beam, and later of
Flink's nexmark) with default settings. Of 50 consecutive events 1 is a person, 3 are auctions and
46 are bids. Ids are counted from 1000, categories from 10. Half of the bids go to the hot auction,
three quarters come from the hot bidder, three quarters of the auctions have the hot seller; each of
these stays hot for a hundred ids.

All values of an event follow from its number and the seed: see `nexmark/random_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import TableColumn
from runnel.columns.batches import Indexes, Mask, from_numbers, indexes, make_batch
from runnel.connectors.nexmark import texts
from runnel.connectors.nexmark.random_numbers import Draws, draws, high_below, low_below, prices
from runnel.errors import internal
from runnel.sqltypes import BIGINT, INTEGER, TIMESTAMP, VARCHAR, row, to_arrow

IN_TURN = 50
"""The number of events in a round: a person, then the auctions, then the bids."""

OFFSETS = {"person": (0, 1), "auction": (1, 4), "bid": (4, 50), "event": (0, 50)}
"""The positions, in a round, of the events of each table."""

AUCTIONS_IN_TURN = 3
FIRST_PERSON = FIRST_AUCTION = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_FOR = 100
ACTIVE_PEOPLE, PERSON_LEAD = 1000, 10
AUCTIONS_IN_FLIGHT, AUCTION_LEAD = 100, 10
HOT_SELLER_IN, HOT_AUCTION_IN, HOT_BIDDER_IN, HOT_CHANNEL_IN = 4, 2, 4, 2
"""One in this number is not the hot one."""

_TIME_TYPE = to_arrow(TIMESTAMP)


@frozen
class EventTiming:
    """Event time: event 0 at `start`, then `rate` events per second, to the millisecond as
    specified.

    start: in µs since 1970.
    rate: events per second.
    """

    start: int
    rate: int

    def times(self, numbers: Indexes) -> Indexes:
        """The event times of events, in µs."""
        found: Indexes = numbers * 1000 // self.rate * 1000 + self.start
        return found


class Events:
    """Events of one kind, by number. Random bits are drawn when a column needs them."""

    def __init__(self, numbers: Indexes, seed: int, timing: EventTiming) -> None:
        self.numbers = numbers
        self.timing = timing
        self._seed = seed
        self._draws: dict[int, Draws] = {}

    def draw(self, stream: int) -> Draws:
        """64 random bits for each event; the same stream returns the same bits."""
        known = self._draws.get(stream)
        if known is None:
            known = self._draws[stream] = draws(self.numbers, self._seed, stream)
        return known

    @cached_property
    def texts(self) -> texts.NexmarkTexts:
        return texts.texts(self._seed)

    @cached_property
    def times(self) -> Indexes:
        return self.timing.times(self.numbers)

    @cached_property
    def rounds(self) -> Indexes:
        """The number of completed rounds; also the last person, counted from 0."""
        found: Indexes = self.numbers // IN_TURN
        return found

    def some_person(self, pick: Draws) -> Indexes:
        """For each draw (its low half) a person that is active, or soon will be, counted from 0."""
        people = self.rounds + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        found: Indexes = people - active + low_below(pick, active + PERSON_LEAD)
        return found


def _hot(last: Indexes, offset: int = 0) -> Indexes:
    """The hot id of the last hundred, counted from 0. (Hot bidders are one after the hot
    sellers.)"""
    found: Indexes = last // HOT_FOR * HOT_FOR + offset
    return found


def _is_hot(random: Draws, shift: int, one_in: int) -> Mask:
    """Decides by the bits of the draw from `shift` on; `one_in` is a power of two."""
    found: Mask = (random & np.uint64((one_in - 1) << shift)) != 0
    return found


def _bigint(values: Indexes) -> pa.Array:
    return from_numbers(values, pa.int64())


def _time(events: Events) -> pa.Array:
    return from_numbers(events.times, _TIME_TYPE)


# A draw of stream 0 is shared by several choices. The functions below use its bits from the left.


def _bid_auction(bids: Events) -> pa.Array:
    last = bids.rounds * AUCTIONS_IN_TURN + (AUCTIONS_IN_TURN - 1)
    first = np.maximum(last - AUCTIONS_IN_FLIGHT, 0)
    other = first + low_below(bids.draw(1), last - first + (1 + AUCTION_LEAD))
    return _bigint(
        FIRST_AUCTION + np.where(_is_hot(bids.draw(0), 62, HOT_AUCTION_IN), _hot(last), other)
    )


def _bid_bidder(bids: Events) -> pa.Array:
    other = bids.some_person(bids.draw(1) >> np.uint64(32))
    return _bigint(
        FIRST_PERSON
        + np.where(_is_hot(bids.draw(0), 60, HOT_BIDDER_IN), _hot(bids.rounds, 1), other)
    )


def _bid_price(bids: Events) -> pa.Array:
    return _bigint(prices(bids.draw(2)))


def _bid_channels(bids: Events) -> Indexes:
    """The index of the channel; the hot channels come first."""
    random = bids.draw(0)
    hot = low_below(random, len(texts.HOT_CHANNELS))
    other = len(texts.HOT_CHANNELS) + low_below(random, texts.CHANNELS)
    found: Indexes = np.where(_is_hot(random, 58, HOT_CHANNEL_IN), hot, other)
    return found


def _bid_channel(bids: Events) -> pa.Array:
    return bids.texts.channels()[0].take(indexes(_bid_channels(bids)))


def _bid_url(bids: Events) -> pa.Array:
    return bids.texts.channels()[1].take(indexes(_bid_channels(bids)))


def _bid_extra(bids: Events) -> pa.Array:
    return bids.texts.letters("bid", *texts.BID_EXTRA, bids.draw(2) >> np.uint64(32))


def _auction_id(auctions: Events) -> pa.Array:
    return _bigint(
        FIRST_AUCTION + auctions.rounds * AUCTIONS_IN_TURN + auctions.numbers % IN_TURN - 1
    )


def _initial_bid(auctions: Events) -> Indexes:
    return prices(auctions.draw(1))


def _reserve(auctions: Events) -> pa.Array:
    return _bigint(_initial_bid(auctions) + prices(auctions.draw(1) >> np.uint64(32)))


def _expires(auctions: Events) -> pa.Array:
    """Later by an amount for which on average a hundred auctions are in flight."""
    ahead = AUCTIONS_IN_FLIGHT * IN_TURN // AUCTIONS_IN_TURN
    horizon = (auctions.timing.times(auctions.numbers + ahead) - auctions.times) // 1000
    milliseconds = 1 + high_below(auctions.draw(2), np.maximum(2 * horizon, 1))
    return from_numbers(auctions.times + milliseconds * 1000, _TIME_TYPE)


def _seller(auctions: Events) -> pa.Array:
    other = auctions.some_person(auctions.draw(2))
    return _bigint(
        FIRST_PERSON
        + np.where(_is_hot(auctions.draw(0), 62, HOT_SELLER_IN), _hot(auctions.rounds), other)
    )


def _category(auctions: Events) -> pa.Array:
    return _bigint(FIRST_CATEGORY + low_below(auctions.draw(0), CATEGORIES))


Making = Callable[[Events], pa.Array]
_PERSON: dict[str, Making] = {
    "id": lambda people: _bigint(FIRST_PERSON + people.rounds),
    "name": lambda people: texts.person_names(people.draw(0)),
    "email_address": lambda people: texts.email_addresses(
        people.texts, people.draw(1), people.draw(1) >> np.uint64(32)
    ),
    "credit_card": lambda people: texts.credit_cards(people.draw(2)),
    "city": lambda people: texts.cities(people.draw(3)),
    "state": lambda people: texts.states(people.draw(0) >> np.uint64(32)),
    "date_time": _time,
    "extra": lambda people: people.texts.letters(
        "person", *texts.PERSON_EXTRA, people.draw(3) >> np.uint64(32)
    ),
}
_AUCTION: dict[str, Making] = {
    "id": _auction_id,
    "item_name": lambda auctions: auctions.texts.words("item", 17, auctions.draw(3)),
    "description": lambda auctions: auctions.texts.words(
        "text", 97, auctions.draw(3) >> np.uint64(32)
    ),
    "initial_bid": lambda auctions: _bigint(_initial_bid(auctions)),
    "reserve": _reserve,
    "date_time": _time,
    "expires": _expires,
    "seller": _seller,
    "category": _category,
    "extra": lambda auctions: auctions.texts.letters(
        "auction", *texts.AUCTION_EXTRA, auctions.draw(4)
    ),
}
_BID: dict[str, Making] = {
    "auction": _bid_auction,
    "bidder": _bid_bidder,
    "price": _bid_price,
    "channel": _bid_channel,
    "url": _bid_url,
    "date_time": _time,
    "extra": _bid_extra,
}
_TYPES = {
    **dict.fromkeys(
        ("id", "initial_bid", "reserve", "seller", "category", "auction", "bidder", "price"), BIGINT
    ),
    **dict.fromkeys(("date_time", "expires"), TIMESTAMP),
}
_KINDS = {"person": _PERSON, "auction": _AUCTION, "bid": _BID}


def _columns(kind: str) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(name, _TYPES.get(name, VARCHAR)) for name in _KINDS[kind])


COLUMNS: dict[str, tuple[TableColumn, ...]] = {kind: _columns(kind) for kind in _KINDS}
"""The columns of each table. "event" has all events, like Flink's NEXMark: a type (0 person, 1
auction, 2 bid), and a ROW for each kind, of which one is not NULL."""
COLUMNS["event"] = (
    TableColumn("event_type", INTEGER),
    *(
        TableColumn(kind, row(*((item.name, item.type) for item in COLUMNS[kind])))
        for kind in _KINDS
    ),
    TableColumn("date_time", TIMESTAMP),
)


def rows(
    table: str, numbers: Indexes, columns: Sequence[str], seed: int, timing: EventTiming
) -> pa.RecordBatch:
    """Columns of the events with these numbers, all of which are of the table's kind."""
    by_name = {item.name: item.type for item in COLUMNS[table]}
    events = Events(numbers, seed, timing)
    arrays = [
        _of_any_kind(events, name, seed) if table == "event" else _KINDS[table][name](events)
        for name in columns
    ]
    return make_batch(
        arrays, pa.schema([(name, to_arrow(by_name[name])) for name in columns]), len(numbers)
    )


def _of_any_kind(events: Events, column: str, seed: int) -> pa.Array:
    if column == "date_time":
        return _time(events)
    positions = events.numbers % IN_TURN
    if column == "event_type":
        kinds = np.searchsorted([OFFSETS["auction"][0], OFFSETS["bid"][0]], positions, side="right")
        return from_numbers(kinds.astype(np.int32), pa.int32())
    if column not in _KINDS:
        raise internal(f"NEXMark events have no column {column}")
    # Example for "auction": positions [0, 1, 2, 4] in a round, is_one = [False, True, True, False].
    # `dense` has two rows; cumsum(is_one) - 1 = [-1, 0, 1, 1] are their indexes, clipped to 0, with
    # NULL where is_one is False: [NULL, 0, 1, NULL].
    first, after = OFFSETS[column]
    is_one = (positions >= first) & (positions < after)
    dense = rows(
        column, events.numbers[is_one], list(_KINDS[column]), seed, events.timing
    ).to_struct_array()
    return dense.take(indexes(np.maximum(np.cumsum(is_one) - 1, 0), is_one))
