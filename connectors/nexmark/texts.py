"""The texts of NEXMark events: names, cities, channels, and padding of random letters.

Texts of random letters are computed once per seed, some thousands of each kind, and events select
from them. Lengths follow the specification; the reference implementations store their ten
thousand channels in the same way.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import indexes
from runnel.connectors.nexmark.random_numbers import Draws, draws, low_below
from runnel.expressions.kernels.values import array_of, scalar_of
from runnel.sqltypes import VARCHAR

US_STATES = "AZ,CA,ID,OR,WA,WY".split(",")
US_CITIES = (
    "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(",")
)
FIRST_NAMES = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter".split(",")
LAST_NAMES = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris".split(",")
HOT_CHANNELS = "Google,Facebook,Baidu,Apple".split(",")
CHANNELS = 10_000

BID_EXTRA, AUCTION_EXTRA, PERSON_EXTRA = (54, 28), (312, 156), (110, 55)
"""The minimum length of the padding, and the number of lengths: the remainder of a bid of 100
bytes on average, an auction of 500 and a person of 200 after their other columns, plus or minus
a fifth."""

TEXTS = 16_384
"""The number of texts of a kind."""

_LETTERS, _A, _SPACE, _UNDERSCORE = 26, 97, 32, 95
_SPACES = 13
"""One in this number of characters is a space."""


class NexmarkTexts:
    """The texts of one seed, each kind computed on first use. Immutable afterwards, so safe for
    threads."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made: dict[tuple[str, int, int], pa.Array] = {}
        self._channels: tuple[pa.Array, pa.Array] | None = None

    def letters(self, kind: str, shortest: int, lengths: int, pick: Draws) -> pa.Array:
        """For each draw (its low 32 bits) a text of `shortest` to `shortest + lengths - 1`
        random letters."""
        return self._pool(kind, shortest, lengths, None).take(indexes(low_below(pick, TEXTS)))

    def words(self, kind: str, lengths: int, pick: Draws) -> pa.Array:
        """For each draw a text of at least three letters and spaces that begins and ends with a
        letter."""
        return self._pool(kind, 3, lengths, _SPACE).take(indexes(low_below(pick, TEXTS)))

    def channels(self) -> tuple[pa.Array, pa.Array]:
        """The names of all channels and their URLs: the four hot ones, then all remaining ones."""
        if self._channels is None:
            words = self._pool("url", 3, 2, _UNDERSCORE).to_pylist()
            with_id = low_below(
                draws(np.arange(CHANNELS), self._seed, _stream_of("channel_id")), 10
            ).tolist()
            names, urls = list(HOT_CHANNELS), []
            for index in range(len(HOT_CHANNELS) + CHANNELS):
                path = "/".join(words[(3 * index + part) % TEXTS] for part in range(3))
                urls.append(f"https://www.nexmark.com/{path}/item.htm?query=1")
            for channel in range(CHANNELS):
                number = _reversed_bits(channel)
                names.append(f"channel-{number}")
                if with_id[channel]:
                    urls[len(HOT_CHANNELS) + channel] += f"&channel_id={number}"
            self._channels = array_of(names, VARCHAR), array_of(urls, VARCHAR)
        return self._channels

    def _pool(self, kind: str, shortest: int, lengths: int, gap: int | None) -> pa.Array:
        known = self._made.get((kind, shortest, lengths))
        if known is None:
            known = self._made[kind, shortest, lengths] = self._new_pool(
                kind, shortest, lengths, gap
            )
        return known

    def _new_pool(self, kind: str, shortest: int, lengths: int, gap: int | None) -> pa.Array:
        stream = _stream_of(kind)
        # The texts are cut out of one sequence of letters. Example with 3 texts of the sizes [3, 4,
        # 3]: offsets = [0, 3, 7, 10]; 10 letters are needed, so 3 draws of 64 bits are made, each
        # of which is 4 numbers of 16 bits: the first 10 of 12. is_gap selects characters for
        # spaces, but never the first (0, 3, 7) or the last (2, 6, 9) of a text.
        sizes = shortest + low_below(draws(np.arange(TEXTS), self._seed, stream), lengths)
        offsets = np.zeros(TEXTS + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        random = draws(np.arange(-(-int(offsets[-1]) // 4)), self._seed, stream + 1).view(
            np.uint16
        )[: offsets[-1]]
        letters = (_A + random % _LETTERS).astype(np.uint8)
        if gap is not None:
            is_gap = random // _LETTERS % _SPACES == 0
            is_gap[offsets[:-1]] = is_gap[offsets[1:] - 1] = False
            letters[is_gap] = gap
        return pa.Array.from_buffers(
            pa.string(), TEXTS, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        )


@lru_cache(maxsize=4)
def texts(seed: int) -> NexmarkTexts:
    """The texts of a seed."""
    return NexmarkTexts(seed)


@lru_cache(maxsize=8)
def _listed(*names: str) -> pa.Array:
    return array_of(names, VARCHAR)


def states(pick: Draws) -> pa.Array:
    """For each draw (its low 32 bits) a state."""
    return _listed(*US_STATES).take(indexes(low_below(pick, len(US_STATES))))


def cities(pick: Draws) -> pa.Array:
    """For each draw a city, of any state."""
    return _listed(*US_CITIES).take(indexes(low_below(pick, len(US_CITIES))))


def person_names(pick: Draws) -> pa.Array:
    """For each draw a first and a last name."""
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    return _listed(*names).take(indexes(low_below(pick, len(names))))


def email_addresses(known: NexmarkTexts, local: Draws, domain: Draws) -> pa.Array:
    """Addresses of random letters."""
    at, dot_com, nothing = (scalar_of(text, VARCHAR) for text in ("@", ".com", ""))
    left, right = known.letters("email", 3, 4, local), known.letters("domain", 3, 2, domain)
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(left, right, at), nothing, dot_com
    )


def credit_cards(random: Draws) -> pa.Array:
    """Four groups of four digits, from all 64 bits of a draw."""
    size = 19
    characters = np.full((len(random), size), _SPACE, np.uint8)
    left = random.copy()
    for index in range(size):
        if index % 5 != 4:
            left, digit = np.divmod(left, np.uint64(10))
            characters[:, index] = digit.astype(np.uint8) + 48
    offsets = np.arange(0, size * len(random) + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(random), [None, pa.py_buffer(offsets), pa.py_buffer(characters)]
    )


def _reversed_bits(number: int) -> int:
    """The 32 bits in reverse order, read as a signed number without its sign."""
    mirrored = int(f"{number:032b}"[::-1], 2)
    return abs(mirrored - (1 << 32) if mirrored >> 31 else mirrored)


def _stream_of(kind: str) -> int:
    """The stream of draws for the texts of one kind; apart from the streams of the events, which
    count from 0."""
    return 1_000 + 2 * int.from_bytes(kind.encode(), "big") % (1 << 40)
