"""Numbers as the report writes them."""

from __future__ import annotations

import pytest

from sparksplit.comparison import numbers


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (numbers.duration(0.000123), "123 µs"),
        (numbers.duration(0.0123), "12.3 ms"),
        (numbers.duration(90), "90.0 s"),
        (numbers.duration(3600), "60.0 min"),
        (numbers.duration(36000), "10.0 h"),
        (numbers.duration(864000), "10.0 days"),
        (numbers.duration(None), "–"),
        (numbers.size(512), "512 B"),
        (numbers.size(1_500_000), "1.50 MB"),
        (numbers.plain(0.00001234), "1.234e-05"),
        (numbers.plain(1234.56), "1,235"),
        (numbers.compact(82.0), "82"),
        (numbers.steps([1, 2, 3]), "1, 2, 3"),
        (numbers.steps(range(2, 22, 2)), "2, 4, ... 20"),
        (numbers.compact(150), "150"),
        (numbers.bound(1.996), "1.99"),
        (numbers.bound(1.42), "1.42"),
        (numbers.bound(12.99), "12.9"),
        (numbers.bound(1234.9), "1,234"),
        (numbers.bound(None), numbers.MISSING),
        (numbers.node_time(2.5), "2.50 node-hours"),
        (numbers.node_time(2.1e-3), "7.56 node-seconds"),
        (numbers.node_time(119 / 3600), "119 node-seconds"),
        (numbers.node_time(0.5), "30.0 node-minutes"),
        (numbers.node_time(1.99), "119 node-minutes"),
        (numbers.node_time(None), numbers.MISSING),
        (numbers.node_time(0.285 / 3600), "0.285 node-seconds"),
        (numbers.compact(2.10), "2.1"),
        (numbers.percent(float("nan")), "–"),
        (numbers.Quantity("accuracy").difference(-0.00314), "−0.31 points"),
        (numbers.Quantity("accuracy").difference(-0.000042), "−0.0042 points"),
        (numbers.Quantity("accuracy").difference(-0.0000001), "0.00 points"),
        (numbers.Quantity("loss").difference(0.25), "+0.250"),
        (numbers.Quantity("loss").interval(-0.1, 0.2), "−0.1000 to 0.2000"),
    ],
)
def test_numbers_are_written_short(written, expected):
    assert written == expected
