"""Made-up pipelines: what their variants would take, round by round, with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparksplit.diagnosis.measured import Facts, Measured

PARTS = ("reading", "transform", "copy", "synchronise", "compute")


@dataclass(frozen=True)
class Pipeline:
    """Seconds of each part per row. overlap: of what is shorter, rows or training, the share that the other hides.
    assembling: of rows; it belongs to reading."""

    reading: float = 0.0
    transform: float = 0.0
    copy: float = 0.0
    synchronise: float = 0.0
    compute: float = 1.0
    optimizer: float = 0.1
    overlap: float = 1.0

    def seconds(self, *without: str) -> float:
        """Of a step where the parts `without` cost nothing."""
        cost = {name: 0.0 if name in without else getattr(self, name) for name in PARTS}
        rows = cost["reading"] + cost["transform"]
        training = cost["copy"] + cost["synchronise"] + cost["compute"]
        return max(rows, training) + (1 - self.overlap) * min(rows, training)

    def gains(self) -> dict[str, float]:
        """How many times as fast it truly is without each part."""
        return {name: self.seconds() / max(self.seconds(name), 1e-9) for name in PARTS}

    def variants(self) -> dict[str, float]:
        """What each variant takes; no step takes nothing at all."""
        rows = ("reading", "transform")
        found = {
            "full": self.seconds(),
            "no_transform": self.seconds("transform"),
            "no_reading": self.seconds("reading"),
            "repeated": self.seconds(*rows),
            "no_copy": self.seconds(*rows, "copy"),
            "no_sync": self.seconds("synchronise"),
            "no_compute": self.seconds("compute", "copy"),
            "compute": self.compute,
            "forward_backward": self.compute * (1 - self.optimizer),
            "reading": self.reading + self.transform,
            "reading_only": self.reading,
        }
        if not self.transform:
            del found["no_transform"], found["reading_only"]
        if not self.synchronise:
            del found["no_sync"], found["no_compute"]
        return {name: max(seconds, 1e-6) for name, seconds in found.items()}

    def measured(self, random: np.random.Generator, rounds: int = 10, noise: float = 0.0, **more: object) -> Measured:
        """What a diagnosis finds. noise: of each value, beside which a round's values rise and fall together."""
        given = more.pop("facts", facts(nodes=2 if self.synchronise else 1))
        assert isinstance(given, Facts)
        together = np.exp(noise * random.standard_normal(rounds))
        seconds = {
            name: (value * together * np.exp(noise * random.standard_normal(rounds)) * 1e-6).tolist()
            for name, value in self.variants().items()
            if not (given.kept and name == "no_reading")
        }
        return Measured(**{"facts": given, "seconds": seconds, **more})


def facts(**more: object) -> Facts:
    """Of a node with much room."""
    given = {
        "nodes": 1,
        "rows": 60_000,
        "row_bytes": 800,
        "own_rows": 60_000,
        "kept": True,
        "first_reading": 0.0,
        "free_mb": 4096,
        "cores": 2,
        "threads": 2,
        "devices": ["CPU:0"],
        "sync_bytes": 400_000,
        "model_bytes": 400_000,
    }
    return Facts(**{**given, **more})
