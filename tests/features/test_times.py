"""Days and moments as ISO 8601 text."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.features import times
from sparksplit.features.times import civil, days_from, month_days, parsed

EPOCH = datetime.datetime(1970, 1, 1)
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: datetime.timedelta(minutes=minutes))


@given(st.lists(st.dates()))
def test_days(dates):
    values, bad = parsed(pa.array([date.isoformat() for date in dates], pa.string()), moment=False)
    assert values.dtype == np.int32 and not bad.any()
    assert values.tolist() == [(date - EPOCH.date()).days for date in dates]


@given(st.lists(st.tuples(st.datetimes(), st.none() | zones, st.sampled_from("T "))))
def test_moments(moments):
    texts, expected = [], []
    for moment, zone, between in moments:
        aware = moment if zone is None else moment.replace(tzinfo=datetime.timezone(zone))
        texts.append(aware.isoformat(sep=between))
        expected.append((moment - EPOCH) // datetime.timedelta(microseconds=1))
        expected[-1] -= 0 if zone is None else zone // datetime.timedelta(microseconds=1)
    values, bad = parsed(pa.array(texts, pa.string()), moment=True)
    assert values.dtype == np.int64 and not bad.any()
    assert values.tolist() == expected


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01T00:01", 60_000_000),
        ("1970-01-01 00:00Z", 0),
        ("1970-01-01 00:00:00.5", 500_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T00:00+01:30", -5_400_000_000),
        ("1969-12-31T23:00-01:00", 0),
    ],
)
def test_forms_of_a_moment(text, microseconds):
    values, bad = parsed(pa.array([text]), moment=True)
    assert (values.tolist(), bad.tolist()) == ([microseconds], [False])


@pytest.mark.parametrize(
    "text",
    [
        *("2023-02-29", "1900-02-29", "2024-00-01", "2024-13-01", "2024-04-31", "2024-01-00", "0000-01-01"),
        *("24-01-01", "2024-1-1", "2024/01/01", " 2024-01-01", "2024-01-01\n", "２０２４-01-01", "x"),
    ],
)
@pytest.mark.parametrize("moment", [False, True])
def test_no_days(text, moment):
    values, bad = parsed(pa.array([text]), moment)
    assert (values.tolist(), bad.tolist()) == ([np.iinfo(values.dtype).min], [True])


@pytest.mark.parametrize(
    "time",
    [
        *("T24:00", "T12:60", "T12:00:60", "T1:00", "T12", "12:00", "T12:00:00.", "T12:00:00.1234567890"),
        *("T12:00z", "T12:00+1", "T12:00+0100", "T12:00+24:00", "T12:00+01:60", "Z", "T12:00 Z"),
    ],
)
def test_no_moments(time):
    assert parsed(pa.array([f"2024-02-29{time}"]), moment=True)[1].all()
    assert not parsed(pa.array(["2024-02-29T12:00"]), moment=True)[1].any()


def test_what_is_missing_is_not_bad():
    for moment, least in ((False, -(2**31)), (True, -(2**63))):
        values, bad = parsed(pa.array(["", None]), moment)
        assert (values.tolist(), bad.tolist()) == ([least, least], [False, False])


def test_the_calendar_of_400_years():
    days = np.arange(-(400 * 366), 400 * 366)
    year, month, day = civil(days)
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    np.testing.assert_array_equal(year, months.astype("datetime64[Y]").astype(np.int64) + 1970)
    np.testing.assert_array_equal(month, months.astype(np.int64) % 12 + 1)
    np.testing.assert_array_equal(day, (dates - months).astype(np.int64) + 1)
    np.testing.assert_array_equal(days_from(year, month, day), days)
    np.testing.assert_array_equal(
        month_days(year, month), ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(int)
    )


@pytest.mark.parametrize(
    ("format", "texts", "wanted"),
    [
        ("MM/dd/yyyy", ["09/18/2024", "9/18/2024", "13/01/2024", "02/30/2024"], ["2024-09-18", None, None, None]),
        ("d.M.yyyy", ["18.9.2024", "18.09.2024", "1.1.0001", " 1.1.2024"], ["2024-09-18"] * 2 + ["0001-01-01", None]),
        ("yyyyMMdd", ["20240918", "2024-09-18", ""], ["2024-09-18", None, ""]),
        ("Mddyyyy", ["9182024", "11112024"], ["2024-09-18", "2024-11-11"]),
        ("yyyy'T'MM''dd(*", ["2024T09'18(*", "2024T09'18((*"], ["2024-09-18", None]),
    ],
)
def test_days_in_a_format(format, texts, wanted):
    values, bad = parsed(pa.array(texts), times.has_time(format), times.check_format(format))
    assert [None if wrong else "" if value == -(2**31) else str(np.datetime64(int(value), "D"))
            for value, wrong in zip(values, bad, strict=True)] == wanted  # fmt: skip


def test_moments_in_a_format():
    for format, text, wanted in (
        ("M/d/yyyy H:mm", "9/18/2024 7:05", "2024-09-18T07:05"),
        ("dd.MM.yyyy HH:mm:ss.SSS", "18.09.2024 07:05:09.250", "2024-09-18T07:05:09.25"),
        ("HH'h' dd/MM/yyyy", "23h 01/02/2024", "2024-02-01T23"),
    ):
        values, bad = parsed(pa.array([text, None]), times.has_time(format), format)
        assert values[0] == np.datetime64(wanted, "us").astype(int) and not bad.any()
        assert not parsed(pa.array([times.example(True, format)]), True, format)[1].any()
    assert times.example(False, "M/d/yyyy") == "5/1/2024" and times.example(True) == "2024-05-01 12:30:00"


@pytest.mark.parametrize(
    "format", ["", "MM/dd", "yy/MM/dd", "%m/%d/%Y", "dd MMM yyyy", "yyyy-MM-dd mm", "dd/dd/yyyy MM", "yyyy-MM-dd SSS"]
)
def test_what_is_no_format(format):
    with pytest.raises(ValueError, match="must "):
        times.check_format(format)


@pytest.mark.parametrize("format", ["Mdyyyy", "yyyyMd", "dyyyyM", "M'0'dyyyy", "yyyy-MM-dH"])
def test_digits_of_which_it_is_not_known_where_they_end_are_refused(format):
    with pytest.raises(ValueError, match=r"must have a separator between \w and \w, or two letters each"):
        times.check_format(format)
