"""The weights that a run begins with if the key `init` names some: of another run, or of a model file."""

from __future__ import annotations

from dataclasses import dataclass

from hdfs_io import filesystem
from sparksplit.dataset.description import Description, LabelSpec
from sparksplit.dataset.labels import are_alike
from sparksplit.model import initial_weights
from sparksplit.training.run_record import check_complete
from sparksplit.training.train_config import TrainConfig

# As in sparksplit.model.export. That module needs Keras, but a driver that trains does not.
KERAS = "model.keras"


@dataclass(frozen=True)
class Initial:
    """The weights that `init` names.

    file: the model's file.
    digest: the digest of its weights.
    description: the data that its run was trained on; None for a file that belongs to no run.
    """

    file: str
    digest: str
    description: Description | None

    @classmethod
    def of(cls, config: TrainConfig) -> Initial | None:
        """Return the weights that `config` names; None if it names none.

        Raise InputError if `init` is neither a complete run of train nor a model file.
        """
        if config.init is None:
            return None
        path = filesystem.absolute(config.init)
        if not filesystem.is_folder(path):
            return cls(path, initial_weights.digest_of(initial_weights.weights_in(path)), None)
        check_complete(path)
        file = filesystem.join(path, KERAS)
        return cls(file, initial_weights.digest_of(initial_weights.weights_in(file)), Description.read(path))

    def warning(self, now: Description) -> str | None:
        """Return a warning if the weights' run had other fitted numbers or other labels than the new run's data;
        otherwise None.

        now: the description of the new run's data.
        """
        then = self.description
        if then is None:
            return None
        if (then.preprocessing, then.features) != (now.preprocessing, now.features):
            return (
                f"init: {self.file}: was trained on data with other fitted numbers, so the same rows give it other "
                "values now. `fitted` in preprocess keeps the numbers"
            )
        if not _mean_the_same(then.label, now.label):
            return (
                f"init: {self.file}: was trained on data with other labels, so the same outputs mean other classes or "
                "numbers now. `fitted` in preprocess keeps the labels"
            )
        return None


def _mean_the_same(then: LabelSpec | None, now: LabelSpec | None) -> bool:
    """Return whether a model's outputs stand for the same."""
    if then is None or now is None:
        return then == now
    return are_alike(then.classes, now.classes) and (then.offset, then.scale) == (now.offset, now.scale)
