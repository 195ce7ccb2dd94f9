"""The work of one node of a diagnosis, from its start to its measurements."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import ConfigError
from sparksplit.base.records import Json, JsonObject
from sparksplit.collectives import Collective
from sparksplit.diagnosis import advice
from sparksplit.diagnosis.measured import Measured, Readers, Tried
from sparksplit.diagnosis.messages import DiagnosisPayload, Effort
from sparksplit.diagnosis.node.blocks import is_enough, rotated, sweep_is_enough
from sparksplit.diagnosis.node.handed import handed_rows
from sparksplit.diagnosis.node.runner import Runner, Variant
from sparksplit.diagnosis.settings import with_settings
from sparksplit.strategies import find
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.main import configure, connect
from sparksplit.training.node.process import Process
from sparksplit.training.node.saver import Saver
from sparksplit.training.progress_record import Progress
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.diagnosis.node.rig import Rig
    from sparksplit.rows.feed import RowSource

_Seconds = Mapping[str, Sequence[float]]

_FIXED = (
    "device",
    "deterministic",
    "jit_compile",
    "threads",
    "nodes",
    "collective",
    "dtype",
    "data",
    "model",
    "optimizer",
    "init",
    "seed",
)
"""Keys that are fixed once a process has started. Settings with one of these keys cannot be tried in the process."""
_NO_MATTER = ("checkpoint",)
"""Keys that do not change the measurements."""
_CHECKPOINTS = 4
_CALIBRATING = 0.2
"""The approximate share of the measurements that finds the length of blocks."""


def work(member: Member) -> JsonObject:
    """Measure the configuration of the DiagnosisPayload. Return the Measured, which is equal on all nodes."""
    with member.phase("start"):
        payload = DiagnosisPayload.from_json(member.payload, "what the driver gave")
        config = payload.train_config()
        configure(config, payload.threads)
        collective = connect(member, config, payload.sources)
        process = Process(member, payload, config)
    try:
        with member.phase("start"), naming_keys(config):
            process.build()
        return _Diagnosis(process, member, collective).measured().to_json()
    finally:
        process.close()
        collective.close()


class _Diagnosis:
    def __init__(self, process: Process, member: Member, collective: Collective) -> None:
        self._process, self._member, self._collective = process, member, collective
        payload = DiagnosisPayload.from_json(member.payload, "what the driver gave")
        self._effort, self._known = payload.effort, payload.known
        self._runner = Runner(member, collective, self._effort)
        self._spooled: RowSource | None = None

    def measured(self) -> Measured:
        """Measure everything that is not known yet."""
        from sparksplit.diagnosis.node.facts import facts
        from sparksplit.diagnosis.node.rig import Rig
        from sparksplit.diagnosis.node.variants import Variants

        process, member, runner = self._process, self._member, self._runner
        rows, handoff = handed_rows(process, member, runner)
        self._spooled = rows if process.receiver is not None else None
        self._say("variants", "a sample of the rows", 0.0)
        with runner.phase():
            rig = Rig(process, member, self._collective, process.config, rows, runner)
            try:
                if self._known is not None:
                    measured, full = self._known, rig.whole()
                    self._runner.calibrate(full)
                else:
                    variants = Variants(rig)
                    measured = Measured(
                        facts=facts(member, rig, variants.sync_bytes),
                        seconds=self._rounds("variants", variants.all, self._effort.rounds, is_enough),
                        handoff=handoff,
                        checkpoint=self._checkpoint(rig),
                    )
                    full = variants.all["full"]
                if not measured.readers:
                    self._trying(measured, None)
                    measured.readers.extend(self._readers(rig, full, measured))
                self._try(rig, full, measured)
            finally:
                rig.close()
        return measured

    def _trying(self, measured: Measured, settings: Mapping[str, Json] | None) -> None:
        """Tell the driver the measurements so far, and the settings that are tried next.

        If this node fails with these settings, other nodes continue without them.
        """
        first = self._member.rank == 0  # the measurements are equal on all nodes
        self._member.announce(trying=settings, **({"found": measured.to_json()} if first else {}))

    def _rounds(
        self, what: str, variants: Mapping[str, Variant], about: int, enough: Callable[[_Seconds, float, Effort], bool]
    ) -> dict[str, list[float]]:
        """Measure rounds until there are enough. Return the seconds per row of each variant, by round. about: the
        expected number of rounds."""
        for place, (name, variant) in enumerate(variants.items()):
            self._say(what, f"how long {name} takes", _CALIBRATING * place / len(variants))
            if variant.extent is None:
                self._runner.calibrate(variant)
            else:
                self._runner.measure(variant)
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        began, done = self._runner.clock(), 0
        gc.collect()
        while True:
            for name in rotated(list(variants), done):
                part = done / about
                self._say(what, name, _CALIBRATING + (1 - _CALIBRATING) * part)
                seconds[name].append(self._runner.measure(variants[name]).per_row)
            done += 1
            if enough(seconds, self._runner.clock() - began, self._effort):
                return seconds

    def _readers(self, rig: Rig, full: Variant, known: Measured) -> list[Readers]:
        """Measure the whole step with several numbers of readers, including the configured number."""
        failed = [failure.settings for failure in known.failed]
        variants: dict[str, Variant] = {}
        for number in sorted({*self._effort.readers, rig.config.readers}):
            if (settings := {"readers": number}) not in failed:
                self._trying(known, settings)
                variants[str(number)] = rig.whole(number, full)
                self._runner.measure(variants[str(number)])
        self._trying(known, None)
        by_number = self._rounds("readers", variants, self._effort.sweep_rounds, sweep_is_enough)
        for variant in variants.values():
            rig.end(variant.rows)
        return [Readers(int(number), seconds) for number, seconds in by_number.items()]

    def _checkpoint(self, rig: Rig) -> float | None:
        """Return the seconds that a checkpoint stops training; None without checkpoints. Writing in the background does
        not count."""
        from sparksplit.training.node.state import State

        config = rig.config
        if config.checkpoint.seconds is None and config.checkpoint.every is None:
            return None
        state = State(self._process, self._member, rig.sync, rig.step, _Unwritten(self._member))
        seconds = []
        for _ in range(_CHECKPOINTS):
            self._runner.table(0.0)
            began = time.perf_counter()
            state.save(Progress("", self._member.size))
            seconds.append(self._runner.most(time.perf_counter() - began))
        # The first checkpoint is left out, because it uses its memory for the first time.
        return sorted(seconds[1:])[(_CHECKPOINTS - 1) // 2]

    def _try(self, rig: Rig, full: Variant, measured: Measured) -> None:
        """Try the recommended and proposed settings, and add the results to `measured`."""
        config = rig.config
        recommended = advice.recommended(config, measured)
        candidates = [*([] if recommended is None else [recommended]), *advice.proposed(config, measured)]
        done = [*(each.settings for each in measured.tried), *(each.settings for each in measured.failed)]
        for candidate in candidates:
            changed = self._with(config, candidate.settings)
            late = candidate is not recommended and self._runner.clock() > self._effort.limit
            if changed is None or late or candidate.settings in done:
                continue
            self._say("settings", ", ".join(f"{key}: {value}" for key, value in candidate.settings.items()), 0.0)
            self._trying(measured, candidate.settings)
            measured.tried.append(self._pairs(rig, full, changed, candidate.settings))
        self._trying(measured, None)

    def _pairs(self, rig: Rig, full: Variant, changed: TrainConfig, settings: Mapping[str, Json]) -> Tried:
        """Measure both configurations on the same rows, in alternating rounds of similar blocks.

        full: the whole step of the current configuration.
        """
        from sparksplit.diagnosis.node.rig import Rig

        rig.reset()
        rows = self._rows(changed)
        other = Rig(self._process, self._member, self._collective, changed, rows, self._runner, rig)
        try:
            with_either = {"before": full, "after": other.whole(like=full)}
            rounds = self._effort.tried_rounds
            seconds = self._rounds(
                "settings", with_either, rounds, lambda seconds, *_: len(seconds["before"]) >= rounds
            )
        finally:
            other.close()
        return Tried(dict(settings), seconds["before"], seconds["after"])

    def _rows(self, changed: TrainConfig) -> RowSource:
        if changed.input_mode == "spark" and self._spooled is not None:
            return self._spooled
        return self._process.prepared_rows()

    def _with(self, config: TrainConfig, settings: Mapping[str, Json]) -> TrainConfig | None:
        """Return the configuration with these settings; None if they cannot be tried here, or do not change the
        measurements."""
        names = {key.partition(".")[0] for key in settings}
        if names & {*_FIXED} or names <= {*_NO_MATTER}:
            return None
        try:
            changed = with_settings(config, settings)
        except ConfigError:
            return None
        if changed.input_mode == "spark" and (self._spooled is None or self._lanes(changed) != self._lanes(config)):
            return None  # Spark has handed over only the rows of the node's own lanes
        return changed

    def _lanes(self, config: TrainConfig) -> list[int]:
        strategy = find(config.strategy, self._process.payload.sources.get("strategy"))
        lanes = strategy.split.lanes(self._process.data.manifest.lanes, self._member.rank, self._member.size)
        return [int(lane) for lane in lanes]

    def _say(self, what: str, name: str, part: float) -> None:
        self._member.state(measuring=what, variant=name, part=round(min(1.0, part), 3))


class _Unwritten(Saver):
    """A saver that writes nothing."""

    def begin(self, write: Any) -> None:
        return
