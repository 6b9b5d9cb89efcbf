"""Texts and names use the field's words: no file gains a word of `forbidden_words.py`.

`allowed.txt` counts the remaining hits by file and rule. The counts only shrink. After you
corrected texts or moved files, run this test with `RUNNEL_REFRESH=1` in the environment: it
rewrites `allowed.txt`, unless a rule has more hits in total than before.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.prose.forbidden_words import NAMES, PUBLIC_NAMES, TEXT, Rule
from tests.prose.texts import ROOT, Text, files, texts_of, without_code, words_of
from tests.syntax_trees import without_collector

ALLOWED = Path(__file__).parent / "allowed.txt"
MOVED = "(moved files)"

Counts = Counter[tuple[str, str]]
"""Number of hits by file and name of the rule."""


class Hit(NamedTuple):
    """A forbidden word in a file."""

    path: str
    line: int
    words: str
    rule: Rule

    def __str__(self) -> str:
        rule = self.rule
        return f'{self.path}:{self.line}: "{self.words}" ({rule.name}); write: {rule.instead}'


def hits_in(path: str, text: Text, rules: Sequence[Rule] | None = None) -> Iterator[Hit]:
    """The hits in a text, also across the ends of lines, but not of paragraphs.

    rules: those to look for; None: all that apply to such a text.
    """
    lines = lines_of(text)
    ends = list(accumulate(len(line) + 1 for line in lines))
    for rule in rules_for(text) if rules is None else rules:
        for match in rule.pattern.finditer(" ".join(lines)):
            yield Hit(path, text.line + bisect_right(ends, match.start()), match[0], rule)


def lines_of(text: Text) -> list[str]:
    return [" ".join(line.split()) for line in text.text.split("\n")]


def rules_for(text: Text) -> Sequence[Rule]:
    return NAMES if text.kind == "name" else TEXT


def may_hit(rule: Rule, together: str) -> bool:
    """Whether a rule may be in one of the joined texts. The beginning of a text is none there."""
    return r"\A" in rule.pattern.pattern or rule.pattern.search(together) is not None


def hits_in_file(path: str, texts: Iterable[Text]) -> Iterator[Hit]:
    """The hits in the texts of a file. Most rules are in none of them: one search in all of them
    together finds that out."""
    kinds: dict[bool, list[Text]] = {}
    for text in texts:
        if (path, text.text) not in PUBLIC_NAMES or text.kind != "name":
            kinds.setdefault(text.kind == "name", []).append(text)
    for group in kinds.values():
        together = "\0".join(" ".join(lines_of(text)) for text in group)
        rules = [rule for rule in rules_for(group[0]) if may_hit(rule, together)]
        for text in group if rules else ():
            yield from hits_in(path, text, rules)


@cache
def hits() -> list[Hit]:
    found: list[Hit] = []
    for path in files():
        name = str(path.relative_to(ROOT))
        with without_collector():
            found += hits_in_file(name, texts_of(path))
    return found


def counted(found: list[Hit]) -> Counts:
    return Counter((hit.path, hit.rule.name) for hit in found)


def parsed(text: str) -> Counts:
    """The counts in a text like `allowed.txt`.

    A merge of two branches may leave two lines for one file: then the smaller counts hold.
    """
    by_path: dict[str, list[Counter[str]]] = {}
    for line in text.splitlines():
        path, *items = line.split()
        pairs = [item.split("=") for item in items]
        by_path.setdefault(path, []).append(Counter({rule: int(n) for rule, n in pairs}))
    counts: Counts = Counter()
    for path, lines in by_path.items():
        for rule in lines[0]:
            counts[path, rule] = min(line[rule] for line in lines)
    return +counts


def written(counts: Counts) -> str:
    lines: dict[str, list[str]] = {}
    for (path, rule), count in sorted(counts.items()):
        lines.setdefault(path, []).append(f"{rule}={count}")
    return "".join(f"{path} {' '.join(items)}\n" for path, items in lines.items())


def without_moves(counts: Counts, paths: set[str]) -> Counts:
    """The counts of `paths`; those of all other files are added up by rule.

    A file that was moved without a change therefore leaves the result as it was.
    """
    result: Counts = Counter()
    for (path, rule), count in counts.items():
        result[path if path in paths else MOVED, rule] += count
    return result


def by_rule(counts: Counts) -> Counter[str]:
    result: Counter[str] = Counter()
    for (_, rule), count in counts.items():
        result[rule] += count
    return result


def problems(found: list[Hit], permitted: Counts) -> list[str]:
    """One line for each hit of a file and rule above its count, and for each count above the
    hits."""
    counts = counted(found)
    paths = {path for path, _ in counts} & {path for path, _ in permitted}
    now, before = without_moves(counts, paths), without_moves(permitted, paths)
    lines = []
    for hit in found:
        key = (hit.path if hit.path in paths else MOVED, hit.rule.name)
        if now[key] > before[key]:
            lines.append(f"{hit}; allowed: {before[key]}, found: {now[key]}")
    for (path, rule), count in sorted(before.items()):
        if now[path, rule] < count:
            lines.append(f"{path}: {rule}={count} is too high: lower it to {now[path, rule]}")
    return lines


def refreshed(found: list[Hit], permitted: Counts) -> str:
    """The new text of `allowed.txt`; AssertionError if a rule has more hits than before."""
    grown = by_rule(counted(found)) - by_rule(permitted)
    lines = [line for line in problems(found, permitted) if any(f"({n})" in line for n in grown)]
    assert not grown, "\n".join([f"more hits than before: {dict(grown)}", *lines])
    return written(counted(found))


def test_no_file_gains_a_forbidden_word() -> None:
    permitted = parsed(ALLOWED.read_text("utf-8"))
    if os.environ.get("RUNNEL_REFRESH"):
        ALLOWED.write_text(refreshed(hits(), permitted), "utf-8")
        permitted = parsed(ALLOWED.read_text("utf-8"))
    lines = problems(hits(), permitted)
    assert not lines, "\n".join(["correct the words, or lower the counts:", *lines])


def test_names_of_rules_are_distinct_and_known() -> None:
    names = [rule.name for rule in (*TEXT, *NAMES)]
    assert len(set(names)) == len(names)
    assert set(by_rule(parsed(ALLOWED.read_text("utf-8")))) <= set(names)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("the table is read anew", "anew"),
        ("What would have to be kept for ever is refused", "for-ever what"),
        ("Gives those of others that aren't there any more", "any-more gives is-there those-of"),
        ("so often, in processing time, those open groups come out", "comes-out so-many"),
        ("the statement's time was over while it waited", "is-over"),
        ("the watermark behind it is told to whoever waits", "behind told who"),
        ("LEAD takes at least 1 argument", "takes"),
        ("a bounded column takes their value no more", "no-more"),
        ("the job goes on from what was kept", "goes-on what-is-kept"),
        ("the place at which a piece begins", "piece place"),
        ("lets go of rows, which had better stay", "had-better let-go"),
    ],
)
def test_rules_find_private_words(text: str, rules: str) -> None:
    found = {hit.rule.name for hit in hits_in("page.md", Text("page", 1, text))}
    assert found == set(rules.split())


@pytest.mark.parametrize(
    "text",
    [
        "A query that needs unbounded state is refused; the error tells you how to bound it.",
        "Each statement returns when its effect is complete. A timeout stops the wait.",
        "every interval of processing time, emits the result of each open group that changed",
        "An idle stream does not hold back the watermark of a join or union.",
        "Transient failures are retried. Permanent ones (a bad value) suspend the job.",
        "an import takes 0.18 s, a query 2 to 3;",
        "a JVM takes 3 s to start; values are sorted in place, with two decimal places",
        "is there a table of that name? The job takes a snapshot and gives up after 3 retries",
        "see `what is kept` and https://example.org/what/is/kept/anew",
    ],
)
def test_rules_pass_plain_words(text: str) -> None:
    found = hits_in("page.md", Text("page", 1, without_code(text)))
    assert [str(hit) for hit in found] == []


SOURCE = '''"""Gives `gives`."""
class TimedGroups:
    """Held."""
    wanted: int  # anew
def hold_places(given):
    if given == "SELECT anew FROM once":
        raise ValueError(f"{given} is there once more")
    log("no", "anew")
'''


def test_texts_of_a_source_file_are_found(tmp_path: Path) -> None:
    path = tmp_path / "errands.py"
    path.write_text(SOURCE, "utf-8")
    found = [hit for text in texts_of(path) for hit in hits_in("errands.py", text)]
    assert sorted((hit.line, hit.rule.name) for hit in found) == [
        *((1, "gives"), (1, "name-errand")),
        *((2, "name-timed"), (4, "anew"), (4, "name-participle")),
        *((5, "name-participle"), (5, "name-place"), (7, "anew"), (7, "is-there")),
    ]


def test_public_names_exist() -> None:
    """An entry of PUBLIC_NAMES whose name was removed or renamed is removed, too."""
    found = {
        (path, text.text)
        for path in {path for path, _ in PUBLIC_NAMES}
        for text in texts_of(ROOT / path)
        if text.kind == "name"
    }
    assert set(PUBLIC_NAMES) <= found


def test_words_of_names() -> None:
    assert words_of("TimedGroups") == words_of("timed_groups") == "timed groups"
    assert [words_of(name) for name in ("HTTPServer", "_kept")] == ["http server", "kept"]


def test_a_hit_may_span_lines_of_a_paragraph() -> None:
    (hit,) = hits_in(
        "a.py", Text("docstring", 7, "The result is kept for\n    ever.\n\nOnce\n\nmore.")
    )
    assert (hit.line, hit.words, hit.rule.name) == (7, "for ever", "for-ever")


def test_a_block_of_comments_is_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("# Kept for\n# ever.\nx = 1  # one\n\n# Another.\n", "utf-8")
    texts = [(text.line, text.text) for text in texts_of(path) if text.kind == "comment"]
    assert texts == [(1, "Kept for\never."), (3, "one"), (5, "Another.")]


def hit_in(path: str) -> Hit:
    return Hit(path, 1, "anew", TEXT[0])


def test_a_new_hit_and_a_high_count_are_reported() -> None:
    permitted = Counter({("a.py", "anew"): 1, ("b.py", "anew"): 2})
    a, b = hit_in("a.py"), hit_in("b.py")
    assert problems([a, b, b], permitted) == []
    assert len(problems([a, a, b, b], permitted)) == 2
    assert problems([a, b], permitted) == ["b.py: anew=2 is too high: lower it to 1"]
    assert len(problems([a, b, b, hit_in("new.py")], permitted)) == 1


def test_a_moved_file_keeps_its_count() -> None:
    permitted = Counter({("a.py", "anew"): 1, ("b.py", "anew"): 2})
    a, moved = hit_in("a.py"), hit_in("c/b.py")
    assert problems([a, moved, moved], permitted) == []
    assert problems([a, moved, moved, moved], permitted) != []
    assert problems([a, moved], permitted) != []
    assert refreshed([a, moved, moved], permitted) == "a.py anew=1\nc/b.py anew=2\n"
    with pytest.raises(AssertionError, match="more hits than before"):
        refreshed([a, a, moved, moved], permitted)


def test_of_two_lines_for_a_file_the_smaller_counts_hold() -> None:
    counts = parsed("a.py anew=2 beside=1\na.py anew=1 behind=3\nb.py anew=4\n")
    assert counts == Counter({("a.py", "anew"): 1, ("b.py", "anew"): 4})
    assert written(counts) == "a.py anew=1\nb.py anew=4\n"
