"""The settings that are worth trying, from the measurements. Pure functions, so all nodes find the same settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sparksplit.base.errors import ConfigError
from sparksplit.base.records import Json
from sparksplit.base.user_functions import is_own
from sparksplit.comparison.numbers import count, percent, size
from sparksplit.diagnosis.measured import Measured, Readers
from sparksplit.diagnosis.settings import with_settings
from sparksplit.diagnosis.verdict import (
    COMPUTE,
    HAND_OFF,
    LEAST,
    READING,
    SYNCHRONISE,
    TRANSFORM,
    Verdict,
    first_reading_seconds,
    gain,
    handoff_seconds,
    taken_by,
    typical,
    verdict,
)
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig

_KNEE = 1.1
"""Numbers of readers count as equally fast if their time is within this factor of the fastest."""
_ROOM = 0.5
"""Share of the free memory that kept rows may take. The model, its gradients and the page cache need some too."""
_DEAR, _CHEAP = 0.03, 0.01
"""If checkpoints take more than the first share of the run, they are written less often and take the second share."""
_SYNC_SHARE = 0.05
"""Share of a step that synchronising may take if nodes agree every few steps."""
_MOST_BETWEEN = 256
"""The most proposed steps between two syncs."""
_FEWEST_UPDATES = 20
"""The fewest updates of a pass with a proposed mini-batch. With fewer updates, a pass learns little."""
_MOST_PROPOSED = 3


@dataclass(frozen=True)
class Candidate:
    """Settings to measure together. settings: values by dotted key. why: the reason in a few words."""

    settings: dict[str, Json]
    why: str

    @property
    def in_steps(self) -> bool:
        """Whether steps show the gain of the settings. A checkpoint is no part of a step."""
        return any(not key.startswith("checkpoint.") for key in self.settings)


def recommended(config: TrainConfig, measured: Measured) -> Candidate | None:
    """Return all settings together that may help and keep the trained weights the same; None if there are none."""
    judged = _verdict(config, measured)
    readers, cache = _readers(config, measured), _cache(config, measured, judged)
    if readers is not None and cache is not None and not measured.facts.kept and not _costs(judged, TRANSFORM):
        # Rows that are read once need no more readers. In few epochs, more readers may still gain more.
        swept = gain(_swept(config, measured), knee(measured.readers).seconds).mean
        readers, cache = (readers, None) if swept > _gain_of_cache(config, measured) else (None, cache)
    chosen = (readers, cache, _input_mode(config, judged), _checkpoints(config, measured))
    each = [candidate for candidate in chosen if candidate is not None]
    settings = {key: value for candidate in each for key, value in candidate.settings.items()}
    return Candidate(settings, "; ".join(candidate.why for candidate in each)) if settings else None


def proposed(config: TrainConfig, measured: Measured) -> list[Candidate]:
    """Return up to three candidates that may help but change the trained weights, the largest likely gain first."""
    judged = _verdict(config, measured)
    each = [
        *_less_often(config, measured, judged),
        *_larger_batches(config, measured, judged),
        *_window(config, measured, judged),
    ]
    valid = [(brings, candidate) for brings, candidate in each if _is_valid(config, candidate)]
    return [candidate for _, candidate in sorted(valid, key=lambda item: -item[0])][:_MOST_PROPOSED]


def knee(readers: Sequence[Readers]) -> Readers:
    """Return the fewest readers of a sweep that are within 10 % of the fastest."""
    fastest = min(typical(row.seconds) for row in readers)
    good = [row for row in readers if typical(row.seconds) <= _KNEE * fastest]
    return min(good, key=lambda row: row.readers)


def knee_is_decided(readers: Sequence[Readers]) -> bool:
    """Whether more rounds would hardly change the knee.

    The knee is decided if each number of readers up to the knee is certainly within 10 % of the fastest, or certainly
    not.
    """
    fastest, best = min(readers, key=lambda row: typical(row.seconds)), knee(readers)
    for row in readers:
        if row.readers <= best.readers and row is not fastest:
            slower = gain(row.seconds, fastest.seconds)
            if slower.low is None or slower.high is None or slower.low <= _KNEE <= slower.high:
                return False
    return True


def besides(config: TrainConfig, measured: Measured) -> float:
    """Return the seconds per row of each pass with `config` that are no part of a step.

    These are Spark's hand-off, the first reading of rows that are kept, and checkpoints. measured: the measurements
    with `config`, or with a configuration that differs only in advised settings.
    """
    facts = measured.facts
    _, passes = _rounds_and_passes(config, measured)
    seconds = _checkpoint_seconds(config, measured) / (facts.rows * passes)
    if config.input_mode == "spark":
        seconds += fmean(handoff_seconds(measured, config.epochs) or [0.0])
    if config.cache_mb >= _cache_needed(measured):
        alone = measured.seconds.get("reading_only", measured.seconds["reading"])
        known = facts.first_reading is not None
        seconds += first_reading_seconds(measured, config.epochs) if known else typical(alone) / config.epochs
    return seconds


def notes(config: TrainConfig, measured: Measured) -> list[str]:
    """Return further advice, which cannot be measured within a run."""
    facts, judged = measured.facts, _verdict(config, measured)
    said = []
    first = first_reading_seconds(measured, config.epochs)
    if judged.limit.name == READING and first > taken_by(judged.shares)[READING] / judged.rows_per_second / 2:
        said.append("more than half of the wait for rows is in the first pass, after which rows are kept")
    if 0 < config.threads < facts.cores and _gain(judged, COMPUTE) > LEAST:
        said.append(
            f"threads: {config.threads} is less than the {facts.cores} cores that a node may use; threads are settled "
            "once TensorFlow runs, so others were not tried"
        )
    if judged.limit.name == TRANSFORM:
        said.append("what the transform makes of a row alike in every epoch is done once if preprocess does it")
    if (
        judged.limit.name in (READING, TRANSFORM)
        and not facts.kept
        and 0 < _ROOM * facts.free_mb < _cache_needed(measured)
    ):
        said.append(
            f"a node's rows would take {count(_cache_needed(measured))} MiB, too much to keep where it has "
            f"{count(facts.free_mb)} MiB free; more nodes have fewer each"
        )
    if judged.limit.name == SYNCHRONISE:
        said.append(f"each node sends {size(facts.sync_bytes)} whenever nodes agree; a faster network would help too")
    if judged.limit.name == HAND_OFF:
        said.append("with more executors Spark hands rows over faster")
    return said


def _verdict(config: TrainConfig, measured: Measured) -> Verdict:
    return verdict(measured, config.epochs)


# Settings that keep the weights the same.


def _readers(config: TrainConfig, measured: Measured) -> Candidate | None:
    if not measured.readers:
        return None
    best, now = knee(measured.readers), _swept(config, measured)
    if best.readers == config.readers or len(now) != len(best.seconds):
        return None
    low = gain(now, best.seconds).low
    if low is None or low <= 1:
        return None
    word = "one reader" if best.readers == 1 else f"{best.readers} readers"
    return Candidate({"readers": best.readers}, f"{word} per node, the fewest that are about as fast as any number")


def _swept(config: TrainConfig, measured: Measured) -> list[float]:
    """Return the sweep's seconds with the configured number of readers."""
    return next((row.seconds for row in measured.readers if row.readers == config.readers), measured.seconds["full"])


def _cache_needed(measured: Measured) -> int:
    """Return the MiB that a node needs to keep its training rows, together with its validation and test rows."""
    facts = measured.facts
    return math.ceil((facts.own_rows * facts.row_bytes + facts.held_out_bytes) * 1.02 / 2**20) + 1


def _cache(config: TrainConfig, measured: Measured, judged: Verdict) -> Candidate | None:
    """Propose to keep the rows in memory, or to read them in every pass.

    Training can hide the reading in each pass, but nothing hides the first reading of kept rows.
    """
    full, first = typical(measured.seconds["full"]), first_reading_seconds(measured, config.epochs)
    if config.readers and max(full, first * config.epochs) * LEAST < full + first:
        return Candidate({"cache_mb": 0}, "rows are read while the model trains, in each pass, instead of before it")
    needed = _cache_needed(measured)
    if measured.facts.kept or config.epochs < 2 or needed > _ROOM * measured.facts.free_mb:
        return None
    if needed <= config.cache_mb or not _costs(judged, READING):
        return None
    return Candidate({"cache_mb": needed}, "rows of the first pass are kept in memory")


def _gain_of_cache(config: TrainConfig, measured: Measured) -> float:
    """Return how many times as fast all passes are if rows are kept. The first pass still reads."""
    alone = measured.seconds.get("reading_only", measured.seconds["reading"])
    later = measured.seconds.get("no_reading", measured.seconds["repeated"])
    return typical(measured.seconds["full"]) / (typical(later) + typical(alone) / config.epochs)


def _input_mode(config: TrainConfig, judged: Verdict) -> Candidate | None:
    if config.input_mode != "spark" or not _costs(judged, HAND_OFF, LEAST):
        return None
    return Candidate({"input_mode": "tensorflow"}, "nodes read the prepared rows themselves")


def _checkpoints(config: TrainConfig, measured: Measured) -> Candidate | None:
    """Propose fewer checkpoints, by time instead of by epochs or updates."""
    stands_still, checkpoint = measured.checkpoint or 0.0, config.checkpoint
    run = _run_seconds(config, measured)
    if _checkpoint_seconds(config, measured) <= _DEAR * run:
        return None
    apart = max(60, math.ceil(stands_still / _CHEAP / 60) * 60)
    settings: dict[str, Json] = {}
    if checkpoint.every is not None:
        settings["checkpoint.every"] = None
    if checkpoint.seconds is None or checkpoint.seconds < apart:
        settings["checkpoint.seconds"] = apart
    if not settings:
        return None
    why = f"a checkpoint stops training for {stands_still:.1f} s: one every {apart} s takes {percent(_CHEAP)}"
    return Candidate(settings, why)


def _checkpoint_seconds(config: TrainConfig, measured: Measured) -> float:
    """Return the seconds that checkpoints stop training in a run, before its end."""
    rounds, _ = _rounds_and_passes(config, measured)
    run, checkpoint = _run_seconds(config, measured), config.checkpoint
    times = 0.0 if checkpoint.seconds is None else math.floor(run / checkpoint.seconds)
    if checkpoint.every == "epoch":
        times += rounds - 1
    elif checkpoint.every is not None:
        times += (rounds * math.ceil(measured.facts.rows / config.batch_size) - 1) // checkpoint.every
    return times * (measured.checkpoint or 0.0)


def _run_seconds(config: TrainConfig, measured: Measured) -> float:
    _, passes = _rounds_and_passes(config, measured)
    return typical(measured.seconds["full"]) * measured.facts.rows * passes


def _rounds_and_passes(config: TrainConfig, measured: Measured) -> tuple[int, int]:
    """Return (rounds, passes) of a run. If the nodes split the epochs, a round is one epoch of each node."""
    epochs, facts = config.epochs, measured.facts
    # A user's own split is not loaded here. If it splits the epochs, each node reads all rows.
    own = is_own(config.strategy)
    splits_epochs = facts.own_rows == facts.rows if own else STRATEGIES[config.strategy].split.every_row
    if not splits_epochs:
        return epochs, epochs
    rounds = math.ceil(epochs / facts.nodes)
    return rounds, rounds * facts.nodes


# Settings that change the weights, each with the likely speed-up of a step.

_Likely = tuple[float, Candidate]


def _less_often(config: TrainConfig, measured: Measured, judged: Verdict) -> list[_Likely]:
    """Propose that nodes synchronise every few steps instead of every step, or less often than now."""
    if is_own(config.strategy) or not _costs(judged, SYNCHRONISE, LEAST):
        return []
    strategy, nodes = STRATEGIES[config.strategy], measured.facts.nodes
    own_batch = config.batch_size if strategy.split.every_row else max(1, config.batch_size // nodes)
    steps = measured.facts.rows // nodes // (config.local_batch_size or own_batch)
    full, without = typical(measured.seconds["full"]), typical(measured.seconds["no_sync"])
    now = config.sync.every if strategy.settings else 1
    if not strategy.settings and not strategy.sync.every_step:
        return []
    wanted = max(4 * now, now * (full - without) / (_SYNC_SHARE * without))
    every = min(2 ** math.ceil(math.log2(wanted)), _MOST_BETWEEN, 2 ** math.floor(math.log2(max(1, steps / 2))))
    if every <= now:
        return []
    settings: dict[str, Json] = {"sync.every": every}
    if not strategy.settings:
        settings = {"strategy": "local", **settings}
        if strategy.split.every_row:
            settings["local_batch_size"] = config.batch_size
        if isinstance(config.checkpoint.every, int):
            settings["checkpoint.every"] = "epoch"
    likely = full / (without + (full - without) * now / every)
    return [(likely, Candidate(settings, f"nodes train on their own rows, and agree every {every} steps"))]


def _larger_batches(config: TrainConfig, measured: Measured, judged: Verdict) -> list[_Likely]:
    """Propose larger mini-batches. Fewer updates synchronise and apply the optimizer less often."""
    if judged.limit.name in (READING, TRANSFORM, HAND_OFF):
        return []
    facts, seconds = measured.facts, {name: typical(values) for name, values in measured.seconds.items()}
    key, now = "batch_size", config.batch_size
    if config.local_batch_size is not None:
        key, now = "local_batch_size", config.local_batch_size
    # The cost of an update that does not depend on its rows, as far as the step shows it.
    per_update = max(0.0, seconds["full"] - seconds.get("no_sync", seconds["full"]))
    per_update += max(0.0, seconds["compute"] - seconds["forward_backward"])
    each: list[_Likely] = []
    for times in (4, 2):
        if facts.rows < _FEWEST_UPDATES * config.batch_size * times:
            continue
        saved = min(0.9 * seconds["full"], per_update * (1 - 1 / times))
        likely = seconds["full"] / (seconds["full"] - saved)
        if judged.limit.name is None and likely < LEAST:
            continue
        why = f"{times} times the rows in each update, so a {'half' if times == 2 else 'quarter'} of the updates"
        each.append((likely, Candidate({key: now * times}, why)))
    return each


def _window(config: TrainConfig, measured: Measured, judged: Verdict) -> list[_Likely]:
    """Propose fewer blocks in memory, so that more bytes fit into the processor's cache."""
    if measured.facts.kept or judged.limit.name != READING or config.input_mode == "spark" or config.window == 1:
        return []
    window = max(1, (config.window or 4) // 2)
    return [(1.0, Candidate({"window": window}, "fewer blocks are read ahead and shuffled together"))]


def _is_valid(config: TrainConfig, candidate: Candidate) -> bool:
    try:
        return with_settings(config, candidate.settings) != config
    except ConfigError:
        return False


def _gain(judged: Verdict, name: str) -> float:
    return next((part.gain.mean for part in judged.parts if part.name == name), 1.0)


def _costs(judged: Verdict, name: str, least: float = 1.0) -> bool:
    """Whether the step would certainly be more than `least` times as fast without the part `name`."""
    lows = [part.gain.low for part in judged.parts if part.name == name]
    return bool(lows) and lows[0] is not None and lows[0] > least
