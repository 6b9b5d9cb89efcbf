"""The known name that is nearest to a name that is not known, for hints."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs from `name` by the fewest letters, ignoring case; None if it
    differs by more than a third of the longer name, and no name contains the second one."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    lower = name.lower()
    # Loaded on first use: only a hint needs it.
    from difflib import get_close_matches

    likely = get_close_matches(lower, by_lower, n=5, cutoff=0.6)
    distances = {word: _distance(lower, word) for word in likely}
    near = [
        word
        for word in likely
        if 3 * distances[word] <= max(len(lower), len(word), 3) or word in lower or lower in word
    ]
    return by_lower[min(near, key=distances.__getitem__)] if near else None


def _distance(first: str, second: str) -> int:
    """The number of letters to insert, delete, replace, or swap with the next one."""
    # Rows of the table of distances between prefixes, for "form" and "from":
    #   ""     [0, 1, 2, 3, 4]
    #   f      [1, 0, 1, 2, 3]
    #   fo     [2, 1, 1, 1, 2]
    #   for    [3, 2, 1, 1, 2], where "or" and "ro" are one swap
    #   form   [4, 3, 2, 2, 1]
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        following = [i]
        for j, other in enumerate(second, 1):
            cost = min(row[j] + 1, following[-1] + 1, row[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return row[-1]
