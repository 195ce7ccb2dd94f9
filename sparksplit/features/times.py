"""Dates and timestamps in texts as numbers, as the exported model's graph reads them: ISO 8601, or a given format.

A date is `YYYY-MM-DD`. A timestamp is a date, or `YYYY-MM-DD[T ]HH:MM[:SS[.f]]`. The fraction has up to nine digits,
and six of them count. A timestamp may end with `Z` or `+HH:MM`, and is converted to UTC. Years are 0001 to 9999. Any
other text is malformed, even one with extra blanks.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

I64 = npt.NDArray[np.int64]

DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
MOMENT = (
    DAY + r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?:Z|(?P<zone>[+-]\d\d:\d\d))?)?"
)
"""RE2 patterns of the whole text. Missing parts are 0."""
NO_FRACTION, NO_ZONE = "000000", "+00:00"
"""Texts to append to the groups `fraction` and `zone`. The digits are then at fixed places."""
DAY_MICROSECONDS = 86_400_000_000


_LETTERS = {
    "yyyy": ("year", r"\d{4}"),
    "MM": ("month", r"\d\d"),
    "M": ("month", r"\d\d?"),
    "dd": ("day", r"\d\d"),
    "d": ("day", r"\d\d?"),
    "HH": ("hour", r"\d\d"),
    "H": ("hour", r"\d\d?"),
    "mm": ("minute", r"\d\d"),
    "ss": ("second", r"\d\d"),
    **{"S" * digits: ("fraction", rf"\d{{{digits}}}") for digits in range(1, 10)},
}
"""Spark's pattern letters, with the group and the pattern of each."""
_PARTS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_SHOWN = {"year": "2024", "month": "05", "day": "01", "hour": "12", "minute": "30", "second": "00"}


def check_format(text: str) -> str:
    """Return `text` if it is a valid format. Raise ValueError otherwise."""
    fields: list[str] = []
    loose = ""  # letters of one or two digits, with only digits since
    for letters, literal in _parts(text):
        if letters and letters not in _LETTERS:
            known = ", ".join(each for each in _LETTERS if not each.startswith("S"))
            raise ValueError(f"must consist of {known}, S to SSSSSSSSS, separators and 'quoted text' (is {text!r})")
        fields += [_LETTERS[letters][0]] if letters else []
        if letters in ("M", "d", "H"):
            if loose:
                raise ValueError(
                    f"must have a separator between {loose} and {letters}, or two letters each, since 111 may be "
                    f"1 and 11 or 11 and 1 (is {text!r})"
                )
            loose = letters
        elif literal and not literal.isdigit():
            loose = ""
    order = ("hour", "minute", "second", "fraction")
    given = [name for name in order if name in fields]
    if len(set(fields)) < len(fields) or not {"year", "month", "day"} <= set(fields) or given != [*order[: len(given)]]:
        raise ValueError(f"must have yyyy, MM and dd, each once, then optionally HH, mm, ss and S (is {text!r})")
    return text


def _parts(format: str) -> list[tuple[str, str]]:
    """Return (pattern letters, "") or ("", literal text) for each part of a format."""
    parts = []
    for part in _PARTS.finditer(format):
        quoted, letter, mark = part.groups()
        literal = mark if quoted is None else quoted.replace("''", "'") or "'"
        parts.append((part[0], "") if letter else ("", literal))
    return parts


def has_time(format: str) -> bool:
    """Return whether texts of this format have a time of day."""
    return "hour" in groups(_of_format(format))


def example(moment: bool, format: str | None = None) -> str:
    """Return an example of a text that `parsed` takes."""
    if format is None:
        return "2024-05-01 12:30:00" if moment else "2024-05-01"
    shown = ""
    for letters, literal in _parts(format):
        name = _LETTERS[letters][0] if letters else ""
        digits = _SHOWN.get(name, "0" * len(letters))
        shown += literal or (digits.lstrip("0") if len(letters) == 1 and name in ("month", "day") else digits)
    return shown


def pattern(moment: bool, format: str | None = None) -> str:
    """Return the pattern that a whole text must match. All groups have names, which `groups` returns."""
    inner = _of_format(format) if format is not None else MOMENT if moment else DAY
    return rf"\A{inner}\z"


def _of_format(format: str) -> str:
    return "".join(
        re.escape(literal) if literal else "(?P<{}>{})".format(*_LETTERS[letters])
        for letters, literal in _parts(format)
    )


def groups(pattern: str) -> list[str]:
    """Return the names of a pattern's groups, in order."""
    return re.findall(r"\(\?P<(\w+)>", pattern)


def parsed(texts: pa.Array, moment: bool, format: str | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return (values, which texts are malformed), each [texts].

    Values are days since 1970 in int32 or, with `moment`, microseconds since 1970 in int64. A null, an empty text and a
    malformed text have the dtype's minimum.

    texts: pa.string(). format: format of the texts in Spark's pattern letters; None: ISO 8601.
    """
    texts = pc.fill_null(texts.cast(pa.string()), "")
    empty = pc.equal(texts, "").to_numpy(zero_copy_only=False)
    wanted = pattern(moment, format)
    names = groups(wanted)
    fields = pc.extract_regex(texts, wanted)
    matched = fields.is_valid().to_numpy(zero_copy_only=False)
    none = pa.repeat("", len(texts))

    def group(name: str, behind: str = "") -> pa.Array:
        part = pc.fill_null(pc.struct_field(fields, name), "") if name in names else none
        return pc.binary_join_element_wise(part, behind, "")

    year, month, day = (_number(group(name)) for name in ("year", "month", "day"))
    good = matched & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= month_days(year, month))
    values = days_from(year, month, day)
    if moment:
        hour, minute, second = (_number(group(name)) for name in ("hour", "minute", "second"))
        microsecond = _number(pc.utf8_slice_codeunits(group("fraction", NO_FRACTION), 0, 6))
        zone = group("zone", NO_ZONE)
        zone_hour, zone_minute = (_number(pc.utf8_slice_codeunits(zone, start, start + 2)) for start in (1, 4))
        east = np.where(pc.starts_with(zone, "-").to_numpy(zero_copy_only=False), -1, 1)
        good &= in_a_day(hour, minute, second) & in_a_day(zone_hour, zone_minute, second)
        values = microseconds(values, (hour, minute, second, microsecond), east * (zone_hour * 60 + zone_minute))
    dtype = np.int64 if moment else np.int32
    return np.where(good, values, np.iinfo(dtype).min).astype(dtype), ~(good | empty)


def _number(digits: pa.Array) -> I64:
    return np.asarray(pc.binary_join_element_wise("0", digits, "").cast(pa.int64()).to_numpy(), np.int64)


# The functions below use only operators, so that they take tensors as well as arrays.


def in_a_day(hour: I64, minute: I64, second: I64) -> npt.NDArray[np.bool_]:
    """Return whether the values are a time of day."""
    return (hour <= 23) & (minute <= 59) & (second <= 59)


def microseconds(days: I64, time: tuple[I64, I64, I64, I64], east: I64) -> I64:
    """Return the microseconds since 1970 in UTC.

    time: hour, minute, second, microsecond. east: minutes that the time zone is ahead of UTC.
    """
    hour, minute, second, microsecond = time
    return days * DAY_MICROSECONDS + ((hour * 60 + minute - east) * 60 + second) * 1_000_000 + microsecond


def days_from(year: I64, month: I64, day: I64 | int) -> I64:
    """Return the days since 1970 of a day of the Gregorian calendar, in whole numbers. Month 13 is the next January.

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
    """
    year = year - (14 - month) // 12
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days: I64 = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return days


def civil(days: I64) -> tuple[I64, I64, I64]:
    """Return (year, month, day) of days since 1970, the inverse of `days_from`."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * from_march + 2) // 5 + 1
    month = (from_march + 2) % 12 + 1
    return year + era * 400 + (14 - month) // 12, month, day


def month_days(year: I64, month: I64) -> I64:
    """Return the number of days in a month."""
    return days_from(year, month + 1, day=1) - days_from(year, month, day=1)
