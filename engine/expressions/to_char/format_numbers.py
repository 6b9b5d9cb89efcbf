"""TO_CHAR of numbers as in PostgreSQL: 9 and 0 for digits, `.` or D, `,` or G, S, SG, MI, PL, PR
(and BR), L or C for a currency sign, RN, TH, V, EEEE, FM.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from runnel.errors import DataError
from runnel.expressions.to_char.patterns import ordinal_ending, roman

_WORDS = (
    "EEEE",
    "SG",
    "MI",
    "PL",
    "PR",
    "BR",
    "RN",
    "TH",
    "FM",
    "9",
    "0",
    ".",
    "D",
    ",",
    "G",
    "S",
    "L",
    "V",
    "B",
    "C",
)
_WITH_EXPONENT = {"EEEE", "9", "0", ".", "D", "FM"}
_MOST_DIGITS = 100
_NUMBER, _SIGN = "\0N", "\0S"
"""Marks in the result: where the number begins, and where S puts the sign."""


class NumberPattern(NamedTuple):
    """A parsed pattern.

    words: each word in upper case ("" for plain text), with the text as it is in the pattern.
    whole: the number of digits before the point.
    fraction: the number of digits after the point.
    first_zero: the index of the first 0 before the point; −1 without one.
    has_point: whether there is a decimal point.
    shift: the number of digits after V, by which the number is multiplied as a power of ten.
    fills: whether the number is padded (no FM).
    """

    words: tuple[tuple[str, str], ...]
    whole: int
    fraction: int
    first_zero: int
    has_point: bool
    shift: int
    fills: bool

    def has(self, word: str) -> bool:
        return any(known == word for known, _ in self.words)


@lru_cache(maxsize=256)
def number_pattern(pattern: str) -> NumberPattern:
    words: list[tuple[str, str]] = []
    at, upper = 0, pattern.upper()
    while at < len(pattern):
        if pattern[at] == '"':
            end = pattern.find('"', at + 1)
            end = len(pattern) if end < 0 else end
            words.append(("", pattern[at + 1 : end]))
            at = end + 1
            continue
        word = next((known for known in _WORDS if upper.startswith(known, at)), None)
        length = 1 if word is None else len(word)
        words.append((word or "", pattern[at : at + length]))
        at += length
    return _read(pattern, words)


def _read(pattern: str, words: list[tuple[str, str]]) -> NumberPattern:
    whole = fraction = shift = 0
    first_zero, has_point, has_shift = -1, False, False
    for word, _ in words:
        if word in ("9", "0"):
            if has_shift:
                shift += 1
            if has_point:
                fraction += 1
            else:
                if word == "0" and first_zero < 0:
                    first_zero = whole
                whole += 1
        elif word in (".", "D"):
            if has_point:
                raise DataError(f"the pattern '{pattern}' has two decimal points")
            has_point = True
        elif word == "V":
            has_shift = True
    if whole + fraction > _MOST_DIGITS:
        raise DataError("a pattern for numbers has too many digits")
    fills = not any(word == "FM" for word, _ in words)
    kinds = {word for word, _ in words}
    if "EEEE" in kinds and not kinds <= _WITH_EXPONENT:
        raise DataError("EEEE goes with digits, a decimal point and FM only")
    return NumberPattern(tuple(words), whole, fraction, first_zero, has_point, shift, fills)


def text_of(value: Decimal | float | int, pattern: str) -> str:
    """A number in the form of a pattern; # in place of each digit if it has too many."""
    form = number_pattern(pattern)
    if not pattern:
        return ""
    if form.has("RN"):
        return _roman(value, form)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return _written(form, "#" * form.whole, "#" * form.fraction, value < 0)
    number = _decimal(value)
    if form.has("EEEE"):
        return _scientific(number, form)
    number = number.scaleb(form.shift)
    quantum = Decimal(1).scaleb(-form.fraction)
    with_digits = number.quantize(quantum, rounding=ROUND_HALF_UP, context=_WIDE)
    sign, digits, _ = with_digits.as_tuple()
    text = "".join(map(str, digits)).rjust(form.fraction + 1, "0")
    whole, fraction = (
        (text[: len(text) - form.fraction], text[len(text) - form.fraction :])
        if form.fraction
        else (text, "")
    )
    whole = whole.lstrip("0")
    if len(whole) > form.whole:
        return _written(form, "#" * form.whole, "#" * form.fraction, bool(sign))
    return _written(form, whole, fraction, bool(sign) and with_digits != 0)


_WIDE = Context(prec=400)


def _decimal(value: Decimal | float | int) -> Decimal:
    """The number as a Decimal; a float by the shortest digits that read back as the same float."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _roman(value: Decimal | float | int, form: NumberPattern) -> str:
    is_small = value == value and -(10**6) < value < 10**6
    number = (
        int(_decimal(value).quantize(Decimal(1), rounding=ROUND_HALF_UP, context=_WIDE))
        if is_small
        else 0
    )
    if not 0 < number < 4000:
        return "#" * 15
    text = roman(number)
    written = next(written for word, written in form.words if word == "RN")
    text = text if written[:1].isupper() else text.lower()
    return text.rjust(15) if form.fills else text


def _scientific(number: Decimal, form: NumberPattern) -> str:
    digits = (
        Context(prec=form.fraction + 1, rounding=ROUND_HALF_UP).plus(number)
        if number
        else Decimal(0)
    )
    power = digits.adjusted() if number else 0
    mantissa = f"{digits.scaleb(-power, _WIDE):.{form.fraction}f}"
    shown = f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return shown if not form.fills or number < 0 else " " + shown


def _written(form: NumberPattern, whole: str, fraction: str, negative: bool) -> str:
    """The pattern's words with the digits at their positions."""
    pad = form.whole - len(whole)
    from_zero = form.first_zero if 0 <= form.first_zero < pad else pad
    if not whole and form.first_zero < 0 and not (fraction and form.has_point):
        from_zero = max(form.whole - 1, 0)
    digits = [
        "" if position < from_zero else "0" if position < pad else whole[position - pad]
        for position in range(form.whole)
    ]
    shown = fraction if form.fills else _needed(form, fraction)
    if form.whole and not (any(digits) or shown):
        digits[-1] = "0"
    texts: list[str] = []
    position = tail = 0
    is_fraction = False
    for word, written in form.words:
        if word in ("9", "0", ".", "D") and _NUMBER not in texts:
            texts.append(_NUMBER)
        if word in ("9", "0") and not is_fraction:
            texts.append(digits[position] or " ")
            position += 1
        elif word in ("9", "0"):
            texts.append(shown[tail] if tail < len(shown) else "")
            tail += 1
        elif word in (".", "D"):
            is_fraction = True
            texts.append("." if form.fraction or "#" in whole else "")
        elif word in (",", "G"):
            texts.append("," if any(digits[:position]) else " ")
        else:
            texts.append(_decoration(form, (word, written), negative, whole))
    return _signed(form, texts, negative)


def _needed(form: NumberPattern, fraction: str) -> str:
    """The digits after the point without trailing zeros, except for digits that the pattern has as
    0.
    """
    asked, count, after = 0, 0, False
    for word, _ in form.words:
        if word in (".", "D"):
            after = True
        elif after and word in ("9", "0"):
            count += 1
            asked = count if word == "0" else asked
    return fraction[: max(asked, len(fraction.rstrip("0")))]


def _decoration(form: NumberPattern, pair: tuple[str, str], negative: bool, whole: str) -> str:
    """The text of a word that is neither a digit nor a point nor a group separator."""
    word, written = pair
    if word in ("FM", "S", "PR", "BR", "V", "B"):
        return _SIGN if word == "S" else ""
    if word == "MI":
        return "-" if negative else " " if form.fills else ""
    if word == "PL":
        return " " if negative else "+"
    if word == "SG":
        return "-" if negative else "+"
    if word in ("L", "C"):
        return "$"
    if word == "TH":
        if negative or form.has_point or "#" in whole:
            return ""
        ending = ordinal_ending(int(whole or "0"))
        return ending.upper() if written.isupper() else ending
    return written


def _signed(form: NumberPattern, texts: list[str], negative: bool) -> str:
    """The sign next to the first digit (or where S is), then the padding."""
    head, _, number = "".join(texts).partition(_NUMBER)
    blanks = len(number) - len(number.lstrip(" "))
    body = number.lstrip(" ")
    mark = "-" if negative else "+"
    if _SIGN in head:
        head, body = head.replace(_SIGN, ""), mark + body
    elif _SIGN in body:
        body = body.replace(_SIGN, mark)
    elif form.has("PR") or form.has("BR"):
        body = f"<{body}>" if negative else f" {body} "
    elif not (form.has("MI") or form.has("SG")):
        body = ("-" if negative else " ") + body
    return head + " " * blanks + body if form.fills else head + body.strip()
