"""The arithmetic behind published figures that could be wrong without anybody noticing."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import generated_tables, h2o, h2o_contender, preprocess, readers, shares, slow_link, tables
from benchmarks import overhead_report as overhead
from benchmarks import tables_theirs as theirs

# benchmarks/h2o.py


def test_h2os_points_leave_out_the_untrained_network_and_its_scoring() -> None:
    header = ["", "duration", "training_speed", "epochs", "samples", "validation_classification_error"]
    rows = [
        ["", " 0.000 sec", None, 0.0, 0.0, float("nan")],
        ["", "14.000 sec", "5000 obs/sec", 1.0, 60_000.0, 0.08],
        ["", "27.000 sec", "5000 obs/sec", 2.0, 120_000.0, 0.05],
    ]
    assert h2o_contender.points_of(header, rows) == [(60_000, 12.0, 0.92), (120_000, 24.0, 0.95)]


def test_our_points_are_those_of_the_training_clock() -> None:
    epochs = [
        {"rows": 60_000, "seconds": {"train": 0.5, "total": 0.9}, "validation": {"accuracy": 0.94, "loss": 0.2}},
        {"rows": 60_000, "seconds": {"train": 0.25, "total": 0.6}, "validation": {"accuracy": 0.96, "loss": 0.1}},
    ]
    assert h2o.points_of(epochs) == [(60_000, 0.5, 0.94), (120_000, 0.75, 0.96)]


def test_the_ratio_to_h2o_is_of_each_repeat_and_the_median_of_all() -> None:
    repeats = [
        ([(1, 0.5, 0.96)], [(1, 10.0, 0.94), (2, 100.0, 0.95)]),
        ([(1, 0.25, 0.94), (2, 0.5, 0.97)], [(1, 60.0, 0.951)]),
        ([(1, 1.0, 0.95)], [(1, 40.0, 0.93), (2, 80.0, 0.96)]),
    ]
    figures = h2o.summary(repeats, 0.95)
    assert (figures["ours_seconds"], figures["h2o_seconds"], figures["ratio"]) == (0.5, 80.0, 120.0)
    assert (figures["h2o_best"], figures["ours_best"], figures["ratio_at_least"]) == (0.96, 0.97, 120.0)
    assert (figures["ours_epoch_seconds"], figures["h2o_epoch_seconds"]) == (0.5, 50.0)


def test_a_contender_that_never_arrives_has_no_ratio() -> None:
    never, late, nothing = [(1, 90.0, 0.93)], [(1, 100.0, 0.96)], list[tuple[int, float, float]]()
    ours = [(1, 0.5, 0.96)]
    figures = h2o.summary([(ours, never), (ours, late), (ours, nothing)], 0.95)
    assert (figures["h2o_seconds"], figures["ratio"], figures["ratio_at_least"]) == (None, None, 180.0)
    # Where it arrives in most repeats, it has one.
    assert h2o.summary([(ours, never), (ours, late), (ours, late)], 0.95)["ratio"] == 200.0
    figures = h2o.summary([([(1, 0.5, 0.9)], late)], 0.95)
    assert (figures["ours_seconds"], figures["ratio"], figures["h2o_seconds"]) == (None, None, 100.0)


# benchmarks/overhead.py and benchmarks/preprocess.py


def test_ratios_are_to_the_faster_peer_and_the_ceiling() -> None:
    rates = {
        "single": 100.0,
        "loop": 125.0,
        "fit1": 60.0,
        "batch2": 150.0,
        "local2": 160.0,
        "ceiling": 200.0,
        "fit2": 120.0,
        "mwms": 30.0,
    }
    assert overhead.ratios({"cnn": rates}) == {
        "cnn_single_ratio": 0.8,
        "cnn_batch2_ratio": 0.75,
        "cnn_batch2_to_single": 1.5,
        "cnn_local2_ratio": 0.8,
        "cnn_batch2_to_mwms": 5.0,
        "cnn_batch2_to_keras2": 1.25,
    }
    assert overhead.ratios({"cnn": {**rates, "fit1": 200.0}})["cnn_single_ratio"] == 0.5
    assert overhead.ratios({"mlp": {"single": 1.0, "mwms": 2.0}}) == {}


def test_a_ratio_is_of_one_round_and_its_spread_that_of_the_middle_half() -> None:
    """A machine that gets slower from round to round changes no ratio."""
    rates = {"mlp": {"single": [100.0, 50.0, 10.0], "batch2": [150.0, 75.0, 15.0]}}
    assert overhead.ratios_of(rates) == {"mlp_batch2_to_single": [1.5, 1.5, 1.5]}
    assert overhead.spread([1.0, 1.1, 1.2]) == pytest.approx(100 * 0.1 / 1.1)
    assert overhead.spread([1.0, 1.0, 1.0, 1.0, 9.0]) == 0


def test_ratios_of_preparations_are_of_the_same_input() -> None:
    rates = {"mnist/ours": 80.0, "mnist/tfos": 20.0, "table/ours": 30.0, "table/spark": 60.0, "csv/spark": 10.0}
    assert preprocess.ratios(rates) == {"mnist_ratio_to_tfos": 4.0, "table_ratio_to_spark_write": 0.5}


# benchmarks/readers.py


def test_seconds_are_of_the_fastest_epoch_but_the_first() -> None:
    epochs = [{"rows": 6000, "seconds": {"train": seconds}} for seconds in (0.5, 1.5, 2.0)]
    assert readers.seconds_of(epochs) == 15.0


def test_the_knee_is_the_fewest_readers_near_the_fastest() -> None:
    # The article's own sweep.
    assert readers.knee({0: 12.96, 2: 6.17, 4: 4.04, 6: 3.77, 8: 3.94}) == 4
    assert readers.knee({0: 5.0, 1: 5.1}) == 0


def test_the_slowest_of_step_reading_and_cores_decides() -> None:
    def sweep(step: float, preprocessing: float, serial: float, cores: int) -> list[float]:
        return [readers.predicted(step, preprocessing, serial, cores, each) for each in (0, 1, 2, 4, 8)]

    # On eight cores reading scales until the step decides; on two, both share them.
    assert sweep(4.0, 9.0, 0.0, 8) == [13.0, 9.0, 4.5, 4.0, 4.0]
    assert sweep(4.0, 9.0, 0.0, 2) == [13.0, 9.0, 6.5, 6.5, 6.5]
    # What only one thread at a time can do ends it earlier. Its share is Amdahl's.
    assert sweep(4.0, 9.0, 1.0, 8) == [13.0, 9.0, 9.0, 9.0, 9.0]
    assert [readers.serial_share(8.0, two) for two in (8.0, 6.0, 4.0, 3.5, 9.0)] == [1.0, 0.5, 0.0, 0.0, 1.0]


# benchmarks/shares.py


def test_blocks_alternate_and_a_clock_that_is_off_counts_nothing() -> None:
    clock: Any = shares.Switched(blocks=4, seconds=0.0)
    step: Any = SimpleNamespace(copying=0.0, warmup=0.0)
    collective: Any = SimpleNamespace(seconds=0.0, waited=0.0)
    batches: Any = iter([SimpleNamespace(updates=3)] * 99)
    counted = []
    with pytest.raises(shares.Over):
        for _ in clock.fed(batches):
            before = dict(clock._spent)
            with clock.training(step, collective), clock.spent_on("other"):
                pass
            counted.append(clock._spent != before)
    assert [on for on, _, _ in clock.blocks] == counted == [True, False, False, True, True, False]
    assert {steps for _, steps, _ in clock.blocks} == {3}


def test_the_clocks_cost_is_that_of_neighbouring_blocks() -> None:
    figures = shares.figures([(True, 10, 1.1), (False, 10, 1.0), (False, 20, 4.0), (True, 20, 4.8)])
    assert (figures["ratio"], figures["pairs"], figures["step_microseconds"]) == (1.15, 2, 155000.0)
    assert figures["interval"] == [1.1, 1.2]


# benchmarks/slow_link.py

RUN = {
    "nodes": 2,
    "hosts": ["10.77.0.1", "10.77.0.2"],
    "rows_per_second": 2000.0,
    "sync_bytes_per_node": 30_000_000,
    "seconds": {"feed": 0.5, "train": 3.5, "sync": 2.5, "waiting": 0.5, "validation": 0.5},
    "metrics": {"validation": {"accuracy": [0.5, 0.75]}, "test": {"accuracy": 0.9}},
}


def test_time_on_a_slow_link_holds_the_exchanges_and_not_validation() -> None:
    row = slow_link.figures("local H=8", RUN, "100 Mbit/s")
    assert (row["seconds"], row["rows_per_second"], row["accuracy"]) == (4.0, 2000.0, 0.9)
    assert (row["sync_seconds"], row["waiting_seconds"], row["bytes_per_node"]) == (2.5, 0.5, 30_000_000)


def test_the_ratio_of_a_slow_link_leaves_out_the_loopback() -> None:
    rates = (("batch", 2, 100.0), ("local H=32", 2, 1550.0), ("batch", 1, 9.0), ("local H=32", 1, 9.0))
    rows = [slow_link.figures(name, RUN, "") | {"hosts": hosts, "rows_per_second": rate} for name, hosts, rate in rates]
    assert slow_link.ratio(rows) == 15.5


# benchmarks/tables.py


def test_the_share_of_the_gap_that_ours_closes() -> None:
    figures = tables.summary([0.8, 0.79, 0.81], {"linear": 0.7, "boosting": 0.85}, lower=False)
    expected = {"ours": 0.8, "linear": 0.7, "boosting": 0.85, "spread": 0.02, "closed": 0.67, "above_linear": True}
    assert figures == expected
    errors = tables.summary([2.0, 2.2], {"linear": 3.0, "boosting": 2.0}, lower=True)
    assert (errors["ours"], errors["closed"], errors["above_linear"]) == (2.1, 0.9, True)
    assert tables.summary([0.6], {"linear": 0.7, "boosting": 0.7}, lower=False)["closed"] is None
    assert not tables.summary([0.6], {"linear": 0.7, "boosting": 0.7}, lower=False)["above_linear"]


def test_the_contenders_windows_hold_what_was_and_what_follows_of_one_station() -> None:
    rows = generated_tables.series(12, 2)
    given, wanted = theirs.windows_of(rows, "station", ["load", "temperature"], "load", 4, 2, 3)
    assert (given.shape, wanted.shape) == ((6, 4, 2), (6, 2))
    load = rows.filter(pc.equal(rows["station"], "station 1"))["load"].to_numpy()
    np.testing.assert_array_equal(given[4, :, 0], load[3:7])
    np.testing.assert_array_equal(wanted[4], load[7:9])


def test_the_contenders_columns_hold_what_ours_do() -> None:
    rows = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int32()),
            "b": pa.array([True, None, False]),
            "day": pa.array([0, None, 59], pa.int32()).cast(pa.date32()),
        }
    )
    numbers, texts = theirs.columns(rows)
    # sin and cos of the month, sin and cos of the weekday (day 0 was a Thursday), whether it is missing.
    march = 2 * math.pi * 2 / 12
    expected = [
        [1, 0, 1, 0, 1, 0],
        [math.nan, 0, 0, 0, 0, 1],
        [3, math.sin(march), math.cos(march), math.sin(2 * math.pi * 3 / 7), math.cos(2 * math.pi * 3 / 7), 0],
    ]
    np.testing.assert_allclose(numbers, expected, atol=1e-12)
    np.testing.assert_allclose(theirs.standardised(numbers, 2)[:, 0], [0, 0, 2])
    assert theirs.indices(texts["b"], 2)[0].tolist() == [2, 0, 1]
