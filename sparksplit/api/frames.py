"""Keys that a call in Python may give without their section, and a DataFrame that `train` prepares itself.

`label="y"` stands for `input={"label": "y"}`, `features=["a", "b"]` for `input={"features": ["a", "b"]}`, and
`validation="split"` for `cut={"by": "column", "column": "split"}`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.marks import CONFIG, SUCCESS, is_own
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, SparksplitError
from sparksplit.base.keys import mark_of
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.dataset.description import Description, FittedPreprocessing
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.model import needs
from sparksplit.model.description import data_description
from sparksplit.prepare.formats import DATAFRAME, PATHS, users
from sparksplit.prepare.preprocess import preprocess
from sparksplit.prepare.preprocess_config import DataFramePreprocess, InputConfig, PreprocessConfig
from sparksplit.training.inputs import check_names
from sparksplit.training.own_models import own_model_of
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparksplit.prepare.sources import Source

_OF_INPUT = tuple(
    key
    for key in InputConfig.model_fields
    if key not in ("format", *PATHS, *PreprocessConfig.model_fields) and DATAFRAME in users(mark_of(InputConfig, key))
)
"""The keys of the section `input` for DataFrames that no other key has the name of."""
_WAITING = ("queue_timeout", "start_timeout")


def in_sections(
    values: Mapping[str, Any], section: Mapping[str, Any] | None, own: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the section `input`, the other keys), with each key in its section.

    values: the keys of the call, those with dots nested. section: the call's argument `input`. own: keys that the
        command has itself

    Raise ConfigError for a key that is given twice.
    """
    rest = dict(values)
    inner = whole_section(rest.pop("input", None), section)
    given = {key: rest.pop(key) for key in _OF_INPUT if key in rest and key not in own}
    if isinstance(rest.get("features"), list | tuple):
        given["features"] = list(rest.pop("features"))
    for key, value in given.items():
        if key in inner:
            raise ConfigError(f"{key}: is also in input; give it once")
        inner[key] = list(value) if isinstance(value, tuple) else value
    if isinstance(rest.get("validation"), str):
        if "cut" in rest:
            raise ConfigError(f"validation: names a column ({rest['validation']!r}), so leave out cut")
        rest["cut"] = {"by": "column", "column": rest.pop("validation")}
    return inner, rest


def whole_section(dotted: Any, section: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the section `input` of a call: its keys with dots, such as `input.missing`, and its argument `input`.

    Raise ConfigError for a key in both.
    """
    whole, also = dict(dotted or {}), dict(section or {})
    for key in also:
        if key in whole:
            raise ConfigError(f"input.{key}: is also in input; give it once")
    return {**whole, **also}


def to_prepare(
    values: Mapping[str, Any], section: Mapping[str, Any] | None, output: Any
) -> tuple[DataFramePreprocess, dict[str, Any]]:
    """Return (how `train` prepares a DataFrame, the keys of `train` alone).

    A key of both commands, such as `seed`, is the training's. Raise ConfigError for a wrong key of the preparation.
    """
    ours = TrainConfig.model_fields
    inner, rest = in_sections(values, section, ours)
    own = {key: rest.pop(key) for key in PreprocessConfig.model_fields if key in rest and key not in ours}
    waiting = {key: rest[key] for key in _WAITING if key in rest}
    place = f"{output}".rstrip("/") + "-data"
    return parse(DataFramePreprocess, {**own, **waiting, "input": inner, "output": place}), rest


def prepare_for(
    config: DataFramePreprocess, frame: DataFrame, training: TrainConfig | None, options: Options | None = None
) -> PreparedDataSet:
    """Prepare the rows of `frame` for a training, and return the data set.

    training: its configuration. None: the model is unknown, and is not checked here.

    Raise UsageError before the rows are read, if the training's names are wrong, or its builder does not take the
    columns. Raise the errors of `preprocess`.
    """
    own, sources = (None, {}) if training is None else (own_model_of(training), check_names(training))

    def suits(source: Source) -> None:
        if training is not None:
            table = source.table
            features = [] if table is None else [each.fitted or table.feature(each) for each in table.columns]
            told = Description(
                tensors=list(source.tensors), label=None, preprocessing=FittedPreprocessing(), features=features
            )
            needs.check(training, sources.get("model.build"), data_description(told, 0), own)

    return preprocess(config, options or Options(), frame, suits)


def tidied(path: str) -> None:
    """Remove the prepared data set in the folder `path`, as `remove_data` does. If this fails, say so in a line: the
    work that needed the data keeps its result."""
    try:
        remove_data(path)
    except (SparksplitError, OSError) as error:
        say(f"{path}: the prepared data is still there, please remove it: {error}")


def remove_data(path: str) -> None:
    """Remove the prepared data set in the folder `path`, if it is there. Other files in the folder stay."""
    if not filesystem.exists(path):
        return
    names = [name for name in filesystem.entries(path) if is_own("preprocess", name)]
    # Without its first marker file, the data set is incomplete; without its last one, the folder is no output of ours.
    for name in sorted(names, key=lambda name: (name != SUCCESS, name == CONFIG)):
        filesystem.remove(filesystem.join(path, name))
    filesystem.remove_empty([path])
