"""Words that the project avoids, and the words to write instead.

A pattern is a regular expression that ignores case. The patterns of TEXT apply to pages, comments,
docstrings and messages, except code in backquotes; the patterns of NAMES apply to the words of
defined names (`TimedGroups` is "timed groups"). At least four of five hits of a pattern should
need a rewrite: if a word has a second, legitimate sense, the pattern excludes it.
`docs/glossary.md` lists the terms to use.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """A word to avoid.

    name: identifies the rule in failures and in `allowed.txt`; without spaces.
    pattern: finds the word.
    instead: the words to choose from.
    """

    name: str
    pattern: re.Pattern[str]
    instead: str


PUBLIC_NAMES = {
    ("engine/connector.py", "place"): "a column of mappings for malformed records",
    ("engine/expressions/aggregates/moments.py", "moments"): "statistical moments",
    ("engine/runtime/metrics.py", "held by"): "a column of SHOW JOBS",
}
"""Names that stay, by file and words: users or stored state depend on them, or the field has the
term. The value is the reason."""


def rule(name: str, pattern: str, instead: str) -> Rule:
    """A rule whose pattern ignores case."""
    return Rule(name, re.compile(pattern, re.IGNORECASE), instead)


TEXT = (
    rule("anew", r"\banew\b|\bonce more\b", "again"),
    rule(
        "beside",
        r"\bbeside\b(?! (?:the|an?|its) (?:old|new|target|data|server|file|point)\b)",
        "with, next to, compared with",
    ),
    rule("behind", r"\bbehind\b(?! (?:an? |the )?(?:URL|proxy|firewall))", "after, late by"),
    rule(
        "gives",
        r"\bgives\b(?! (?:up|way)\b)|\bg(?:ive|ives|iven|ave|iving) (?:back|out|on|away)\b",
        "returns, emits, yields, preserves (a value), releases",
    ),
    rule("hands-out", r"\bhand(?:s|ed|ing)? (?:out|on)\b", "returns, emits, passes"),
    rule("told", r"\btold\b(?! apart)|\btells\b(?! you\b)", "is given, is notified, reports"),
    rule(
        "takes",
        r"\btakes (?![0-9][0-9.,]*(?: to [0-9.,]+)? ?(?:ms|µs|s|ns|GB|MB|seconds?)\b)"
        r"(?:an?|one|no|two|three|some|either|at least|at most|only|the same|·|[0-9])"
        r"(?! "
        r"?(?:ms|µs|s|ns|GB|MB|seconds?|while|minutes?|long|little|time|share|place|lock|turn)\b)"
        r"(?! (?:(?:first|last|new|named) )?snapshot)",
        "accepts, needs",
    ),
    rule("work-out", r"\bwork(?:s|ed|ing)?(?: (?:it|them|this|that))? out\b", "compute"),
    rule("who", r"\b(?:nobody|somebody|anybody|whoever|who|whom)\b", "the name of the thing"),
    rule("for-ever", r"\bfor ever\b", "without bound, indefinitely"),
    rule(
        "moment",
        r"\bmoments?\b(?! (?:of|about) the (?:distribution|mean))",
        "timestamp, instant, point in time",
    ),
    rule(
        "place",
        r"(?<!\")(?<!\bin )(?<!\btake )(?<!\btakes )(?<!\btook )(?<!\btake its )(?<!\btook its "
        r")(?<!\btakes its )(?<!decimal )(?<![0-9] )\bplaces?\b(?! of\b)",
        "position, offset, path, index",
    ),
    rule(
        "so-many",
        r"\bso (?:many|often|much|few)\b(?! (?:that|as)\b)|\bat most so\b",
        "the quantity by its name: every nth, interval",
    ),
    rule(
        "is-there",
        r"\b(?:is|are|was|were)(?:n't| not)? there\b(?! (?:an?|no|any(?! more))\b)|\bthat there "
        r"(?:is|are)[,.;:)]",
        "exists, was deleted",
    ),
    rule("any-more", r"\bany ?more\b(?! (?:\w+s|than)\b)", "no longer"),
    rule("no-more", r"\bno more\b(?=[,.;:)]|\Z)", "no longer"),
    rule("what", r"(?:\A|(?<=[.;] ))what\b(?![^.;:]*\?)", "a noun as the subject"),
    rule(
        "what-is-kept",
        r"\bwhat (?:is|are|was|were|it|they|would be|(?:\w+ )?\w+) (?:kept|keeps?)\b",
        "state",
    ),
    rule("those-of", r"\bthose of\b|\bthat of\b", "the noun again"),
    rule(
        "the-other",
        r"\bthe (?:former|latter|others)\b"
        r"|(?<!\bafter )\bthe other(?=[,.;:)]| (?:is|are|was|has|ones?)\b)",
        "the noun again",
    ),
    rule("piece", r"\bpieces?\b", "chunk, segment, row group"),
    rule(
        "parts",
        r"\bparts\b(?! of (?:an? |the )?(?:dates?|times?|day|microsecond|second|interval|path))",
        "partitions, operands, conjuncts, chunks",
    ),
    rule("thing", r"\bthings?\b", "the noun"),
    rule("wanted", r"\bwanted\b|\bwants\b", "requested, required; needs"),
    rule("divert", r"\bdivert(?!:)\w*\b", "side output, late output, malformed records"),
    rule(
        "meaning",
        r"\b(?:our|another|and|by its|same|has the|have the|vertex's) meanings?\b|\bmeanings\b",
        "semantics; of state: state signature",
    ),
    rule("fate", r"\bfates?\b", "outcome"),
    rule("patience", r"\bpatience\b", "deadline"),
    rule("promise", r"\bpromis(?:e|es|ed|ing)\b", "guarantee"),
    rule("errand", r"\berrands?\b", "task of the serial executor"),
    rule("own-functions", r"\b(?:own|one's own) functions\b", "user functions"),
    rule("ours", r"\bours\b|\bof our own\b|\bone's own\b", "Runnel's; the user's"),
    rule("united", r"\bunited\b", "combined by UNION ALL, merged"),
    rule("goes-on", r"\bgo(?:es|ing|ne)? on\b|\bwent on\b", "continues, resumes"),
    rule("comes-out", r"\bc(?:ome|omes|ame) out\b(?! of)", "is emitted"),
    rule("comes-about", r"\bc(?:ome|omes|ame) about\b", "is complete, takes effect"),
    rule("tried-again", r"\btr(?:ied|ies) again\b", "is retried"),
    rule(
        "is-over",
        r"\b(?:is|are|was|were) over\b(?=[,.;:)]|\Z| (?:and|or|when|while)\b)",
        "has ended, timed out",
    ),
    rule("let-go", r"\blet(?:s|ting)? go\b", "releases, removes, drops"),
    rule("had-better", r"\bhad better\b", "should"),
    rule(
        "private-term",
        r"\b(?:divided plan|rounded time|time link|shown option|far zone|file place|kafka side"
        r"|frame of time)s?\b|\bframes of time\b",
        "the terms of the glossary",
    ),
)
"""Rules for text."""

NAMES = (
    rule(
        "name-participle",
        r"\b(?:wanted|given|kept|held|seen|told|sought)\b",
        "requested, emitted, retained, buffered, observed, reported, probe",
    ),
    rule("name-timed", r"\btimed\b(?! out)", "event_time, windowed"),
    rule("name-divert", r"\bdivert\w*\b", "side_output, late_output, malformed_records"),
    rule("name-meaning", r"\bmeanings?\b|\bfates?\b", "signature, outcome"),
    rule("name-patience", r"\bpatience\b", "deadline"),
    rule("name-promise", r"\bpromis\w+\b", "guarantee"),
    rule("name-errand", r"\berrands?\b", "executor, task"),
    rule("name-place", r"(?<!\bin )\bplaces?\b", "position, offset, path, index"),
    rule("name-moment", r"(?<!higher )\bmoments?\b(?! state)", "instant, timestamp"),
    rule("name-piece", r"\bpieces?\b|\bthings?\b", "chunk, segment"),
)
"""Rules for names."""
