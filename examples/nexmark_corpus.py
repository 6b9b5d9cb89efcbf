"""A seeded NEXMark corpus as Arrow tables: people, auctions and bids of an online auction.

The shape is that of the NEXMark benchmark (Tucker, Tufte, Papadimos, Maier, "NEXMark: a benchmark
for queries over data streams", and its widely used generator): of 50 events in a row, 1 is a
person, 3 are auctions and 46 are bids; ids count from 1000; half of the bids go to hot auctions,
and most auctions have hot sellers. The same seed and size always give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

FIRST_ID = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
EVENTS_PER_SECOND = 10_000
START = np.datetime64("2026-01-01T00:00:00.000000", "us")
STATES = np.array(["OR", "ID", "CA", "WA", "AZ", "WY"])
CITIES = np.array(
    ["Portland", "Boise", "Los Angeles", "San Francisco", "Seattle", "Phoenix", "Bend", "Cheyenne"]
)
FIRST_NAMES = np.array(
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
)
LAST_NAMES = np.array(
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
)
CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])


@dataclass(frozen=True, slots=True)
class Corpus:
    """The three tables. Times are TIMESTAMPs; prices are whole cents."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table


def corpus(events: int, seed: int = 7) -> Corpus:
    """The first `events` events, divided into the three tables."""
    random = np.random.default_rng(seed)
    number = np.arange(events, dtype=np.int64)
    within = number % 50
    return Corpus(
        _people(random, number[within == 0]),
        _auctions(random, number[(within >= 1) & (within <= 3)]),
        _bids(random, number[within >= 4]),
    )


def _time(number: np.ndarray) -> np.ndarray:
    return START + (number * (1_000_000 // EVENTS_PER_SECOND)).astype("timedelta64[us]")


def _people(random: np.random.Generator, number: np.ndarray) -> pa.Table:
    count = len(number)
    first, last = random.choice(FIRST_NAMES, count), random.choice(LAST_NAMES, count)
    name = np.char.add(np.char.add(first, " "), last)
    address = np.char.lower(np.char.add(np.char.add(first, "."), last))
    return pa.table(
        {
            "id": FIRST_ID + np.arange(count),
            "name": name,
            "email": np.char.add(address, "@example.com"),
            "city": random.choice(CITIES, count),
            "state": random.choice(STATES, count),
            "ts": _time(number),
        }
    )


def _auctions(random: np.random.Generator, number: np.ndarray) -> pa.Table:
    count = len(number)
    people = np.maximum(number // 50 + 1, 1)
    hot = random.random(count) < 0.75
    seller = np.where(
        hot, (people - 1) // 100 * 100, (random.random(count) * people).astype(np.int64)
    )
    initial = _price(random, count)
    return pa.table(
        {
            "id": FIRST_ID + np.arange(count),
            "item": np.char.add("item ", random.integers(0, 10_000, count).astype(str)),
            "initial_bid": initial,
            "reserve": initial + _price(random, count),
            "ts": _time(number),
            "expires": _time(number) + random.integers(1, 20, count).astype("timedelta64[s]"),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + random.integers(0, CATEGORIES, count),
        }
    )


def _bids(random: np.random.Generator, number: np.ndarray) -> pa.Table:
    count = len(number)
    people, auctions = number // 50 + 1, np.maximum(number // 50 * 3 + 3, 1)
    hot = random.random(count) < 0.5
    auction = np.where(
        hot, (auctions - 1) // 100 * 100, (random.random(count) * auctions).astype(np.int64)
    )
    return pa.table(
        {
            "auction": FIRST_ID + auction,
            "bidder": FIRST_ID + (random.random(count) * people).astype(np.int64),
            "price": _price(random, count),
            "channel": random.choice(CHANNELS, count),
            "ts": _time(number),
        }
    )


def _price(random: np.random.Generator, count: int) -> np.ndarray:
    return np.round(10 ** (random.random(count) * 6) * 100).astype(np.int64)
