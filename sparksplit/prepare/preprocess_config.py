"""The configuration of raw input and of `preprocess`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hdfs_io import filesystem
from hdfs_io.listing import expand
from sparksplit.base.config import Config, digest
from sparksplit.base.errors import InputError
from sparksplit.base.keys import Mark, mark_of, unhashed, used_by
from sparksplit.base.later_keys import LaterKeys
from sparksplit.base.user_functions import is_own
from sparksplit.features.feature_config import Features
from sparksplit.prepare import characters
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.durations import seconds
from sparksplit.prepare.formats import PATHS, format_of, known_format, table_name, tells_formats, users
from sparksplit.prepare.windows_config import WindowsConfig
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS, Patience

Fraction = Annotated[float, Field(ge=0, lt=1)]
Dtype = Literal[
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"
]


RULES = 6
"""Version of the rules for reading, numbering, cutting and fitting rows. Increase by one if an unchanged configuration
would give other rows or numbers. Then no output of earlier rules counts as complete."""


def _no_list(value: Any) -> Any:
    if isinstance(value, list):
        raise ValueError(
            "must be a mapping of columns to kinds (is a list); input.features lists the columns that are features"
        )
    return value


_Filled = Annotated[str, Field(min_length=1)]
_AtLeast1 = Annotated[int, Field(ge=1)]
_Character = Annotated[str, AfterValidator(characters.mark)]
Paths = _Filled | Annotated[list[_Filled], Field(min_length=1)]
"""A path, or several."""


@tells_formats
class InputConfig(LaterKeys, Config):
    """Where the raw rows are, and how to read them."""

    later = ("features",)

    format: Annotated[str, AfterValidator(known_format)] = "idx"
    """Format of the input. idx: a folder with the four standard MNIST file names. csv: files of delimited text.
    hive-text: the text files of a Hive table. text: UTF-8 files, read as one text in the order of their names. parquet,
    orc, json, avro: files that Spark reads. tfrecord: files of tf.train.Example. images: PNG and JPEG files. table: a
    table in Spark's catalog (Hive). sql: a query. The files of idx, csv and text may be compressed (.gz). A function of
    your own also works: `package.module:function` or `path/to/file.py:function`. The function gets (spark, path) and
    returns a DataFrame."""
    path: Annotated[Paths | None, used_by("files", "idx", "text", "dataframe")] = None
    """Where the rows are. idx: the folder of the four files. text: a file or a folder. Your own function gets the path
    as its second argument. All other formats take a file, a folder with its sub-folders, a
    pattern (`days/*.csv`) or a list of these. The files can be wherever Spark can read. Partition folders
    (`day=2024-01-01`) below the path add columns."""
    validation: Annotated[Paths | None, used_by("files")] = None
    """Files of your own validation split, given like `input.path`. Without this key, a fraction of the training rows
    becomes the validation split; the key `validation` sets the fraction."""
    test: Annotated[Paths | None, used_by("files", "text")] = None
    """Files of your own test split, given like `input.path`. Without this key, a fraction of the training rows becomes
    the test split: the fraction is the key `test` beside `input`. In an idx folder, the t10k files are the test
    split."""
    table: Annotated[_Filled | None, used_by("table")] = None
    """Name of the table in Spark's catalog, such as a Hive metastore: DATABASE.TABLE."""
    query: Annotated[_Filled | None, used_by("sql")] = None
    """The SELECT statement that returns the rows."""
    label: Annotated[int | str | None, used_by("columns", "idx", "text")] = -1
    """Column with the labels, by name or position (0: first, -1: last). null: no labels. If the key is not set, the
    format decides. csv and hive-text: the last column. images: the folder name of each file is its label. idx: the
    files of labels. text: the next token at each position is the label. All other formats need the key, and so does
    every input with partition folders or `input.column`. In `predict`, leave the key out if the training data had
    column names: the column that is named like the training label is the label. In csv and hive-text, a name needs a
    header or `input.columns`."""
    label_type: Annotated[Literal["auto", "integer", "text", "number"], used_by("columns", "idx")] = "auto"
    """Type of the labels. integer, text: classes. number: numbers to predict (regression). auto: by the first rows of
    csv and hive-text, by the data type of the labels' file in idx, otherwise by the column type. For auto, labels with
    a decimal point are numbers. If the labels are exactly 0.0 and 1.0, the labels become classes, except in idx."""
    header: Annotated[bool, used_by("csv")] = True
    """Whether the first line of each file holds the column names."""
    columns: Annotated[list[_Filled], used_by("delimited")] = Field(default_factory=list)
    """Names of all columns, in order, for files without a header. Without this key, columns have positions only."""
    delimiter: Annotated[str, AfterValidator(characters.delimiter), used_by("delimited")] = ","
    """Character between columns: one ASCII character, a name (tab, space, comma, semicolon, pipe) or an escape such as
    \\t, \\x01, \\001 or ^A. The default of hive-text is ^A."""
    quote: Annotated[_Character | None, used_by("csv")] = '"'
    """Character around a cell that contains delimiters or line ends. null: cells are not quoted."""
    escape: Annotated[_Character | None, used_by("csv")] = None
    """Character before a quote inside a quoted cell. null: the quote character itself, so a quote is written twice."""
    multiline: Annotated[bool, used_by("csv")] = False
    """Whether a quoted cell may contain line ends. If true, Spark cannot split a file: each file is read by a single
    task, however large it is."""
    nulls: Annotated[list[str], used_by("delimited")] = Field(default_factory=lambda: [""])
    """Texts that stand for a missing value. The default of hive-text is \\N and the empty text. If the key is not set,
    `predict` and `fitted` use the texts that were set for the earlier data."""
    encoding: Annotated[str, used_by("delimited")] = "UTF-8"
    """Encoding of the files, by its name in Java, such as ISO-8859-1 or windows-1252."""
    comment: Annotated[_Character | None, used_by("delimited")] = None
    """Skip lines that begin with this character. null: skip no lines."""
    dtype: Annotated[Dtype | None, used_by("rows", "idx")] = None
    """Data type of the stored features. If the key is null, idx keeps the type of its files, the other formats take
    float32, and `predict` takes the type that the model was trained with. With mixed columns (see `features`), the key
    sets the type of float and decimal columns only, and must be a float type. If it is null there, every column keeps
    its own type."""
    shape: Annotated[list[Annotated[int, Field(gt=0)]] | None, used_by("rows", "idx")] = None
    """Shape of one row's tensor. null: [number of features]; with the format idx, the shape in its files; in `predict`,
    the shape that the model was trained with. Not for mixed columns (see `features`) or windows."""
    keep: Annotated[list[int | str], used_by("columns")] = Field(default_factory=list)
    """Columns to copy, as text, to the prepared data and the predictions, such as a customer id. Give names or
    positions. The model does not see these columns. If the key is not set, `predict` keeps the columns that the
    training data kept, if columns have names."""
    features: Annotated[Annotated[list[int | str], Field(min_length=1)] | None, used_by("rows")] = None
    """Columns that are features, by name or position; the model takes them in the order of the list. null: all columns
    except the label and the columns with another use. The key `features` beside `input` says what becomes of each
    column. Leave this key out with windows, with `fitted` and in `predict`."""
    weight: Annotated[int | str | None, used_by("rows")] = None
    """Column with the weight of each row in the loss and in the metrics, by name or position. Weights are numbers of 0
    or more. The model does not see this column. Not for windows."""
    missing: Annotated[Literal["error", "mean"], used_by("rows")] = "error"
    """What to do with missing values in features. error: a row with a missing value is a bad row
    (`input.max_bad_rows`). mean: the column's mean over the training split replaces the missing value. mean needs a
    float `input.dtype`. With windows, `error` leaves out each window that has a missing value, and `mean` leaves out a
    window only if its label is missing. Mixed columns use `features.NAME.impute` instead."""
    windows: Annotated[WindowsConfig | None, used_by("rows")] = None
    """Turn time series into windows. Each window holds consecutive rows of a series, and its label is the label column
    in the rows that follow. All features must be numbers. null: rows stay as they are. In `predict`, leave this key
    out: the model's windows are used."""
    size: Annotated[
        Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=2, max_length=2)] | None, used_by("images")
    ] = None
    """Size in pixels to which each image is resized: [height, width]. `preprocess` needs this key. If the key is null,
    `predict` takes the size that the model was trained with."""
    channels: Annotated[Literal[1, 3], used_by("images")] = 3
    """Colour channels of each image. 3: red, green and blue. 1: grey. If the key is not set, `predict` takes the
    channels that the model was trained with."""
    wait: Annotated[
        Annotated[float, BeforeValidator(seconds), Field(gt=0)] | None, Mark(hashed=False, users=("files",))
    ] = None
    """Longest time to wait until every path has rows: a number of seconds, or a text such as 90s, 30m or 2h. null: do
    not wait. For a pattern such as `{mon,tue}`, both alternatives must have rows. Empty files and folders do not count.
    Folders that Spark or Hadoop is still writing (`_temporary`, `._COPYING_`) do not count either. Only for local files
    and HDFS."""
    exif: Annotated[bool, used_by("images")] = True
    """Whether to rotate and mirror each image by its EXIF orientation. `predict` uses the setting of the training
    data."""
    column: Annotated[_Filled | None, used_by("images")] = None
    """Column with the encoded images in Parquet files. null: the files at `input.path` are the images, and the folder
    name of each file is its label."""
    unit: Annotated[Literal["characters", "words"], used_by("text")] = "characters"
    """What a token is. characters: each character. words: each run of letters, digits and _, and each other character
    that is not white space. In `predict`, leave this key out: only the unit that the model was trained with works."""
    length: Annotated[_AtLeast1, used_by("text")] = 40
    """Number of tokens in one sequence. In `predict`, leave this key out: only the length that the model was trained
    with works."""
    stride: Annotated[_AtLeast1 | None, used_by("text")] = None
    """Number of tokens from the start of one sequence to the start of the next, at most `input.length`. null:
    `input.length`, so that sequences do not overlap."""
    max_sequences: Annotated[_AtLeast1 | None, used_by("text")] = None
    """Use only the beginning of the text, with enough tokens for this many sequences. The splits are cut afterwards.
    null: use the whole text."""
    vocabulary: Annotated[_AtLeast1 | None, used_by("text")] = None
    """Largest number of tokens in the vocabulary. The most frequent tokens of the training split enter first, in a tie
    the token with the lowest code point. All other tokens become one unknown token. null: every token of the training
    split."""
    max_bad_rows: Annotated[int, Field(ge=0), used_by("columns", "idx")] = 0
    """Largest number of bad rows to leave out. The output's folder bad_rows/ keeps these rows with the reason. More bad
    rows end the job with an error."""
    max_bad_fraction: Annotated[Fraction | None, used_by("columns", "idx")] = None
    """Largest fraction of bad rows to leave out, of all rows. Replaces `input.max_bad_rows` if only this key is set. If
    both keys are set, the stricter limit holds."""

    def uses(self, key: str) -> bool:
        """Whether the format uses `key`."""
        return table_name(self.format) in users(mark_of(InputConfig, key))

    @property
    def place(self) -> str:
        """The name of the rows in error messages."""
        return self.table or ("the query" if self.query else "; ".join(self.paths_of("path")))

    def paths_of(self, key: str) -> list[str]:
        """Return the paths of `key` (path, validation or test), or an empty list."""
        given: str | list[str] | None = getattr(self, key)
        return [given] if isinstance(given, str) else list(given or ())

    def one_path(self, key: str = "path") -> str:
        """Return the only path of `key`. Raise ConfigError unless there is exactly one path."""
        given = self.paths_of(key)
        if len(given) != 1:
            raise self.error(key, f"must be one path for {self.format} (is a list of {len(given)})")
        return given[0]

    @property
    def listed(self) -> bool:
        """Whether the rows are in files that we can list without Spark."""
        there = [path for key in PATHS for path in self.paths_of(key)]
        return not is_own(self.format) and bool(there) and all(map(filesystem.is_known, there))

    def located(self) -> dict[str, Any]:
        """Return the values for the hash, with paths that do not depend on the working folder."""
        if is_own(self.format):  # the user's function may get any text, such as a table's name
            return self.model_dump(exclude=unhashed(InputConfig))
        return {**self.model_dump(exclude=unhashed(InputConfig)), **{key: self._located(key) for key in PATHS}}

    def _located(self, key: str) -> str | list[str] | None:
        paths = [filesystem.absolute(path) if self._is_place(path) else path for path in self.paths_of(key)]
        return paths if isinstance(getattr(self, key), list) else paths[0] if paths else None

    def _is_place(self, path: str) -> bool:
        return not format_of(self.format).patterns or filesystem.is_known(path)

    def paths(self) -> dict[str, str]:
        """Return the places of the rows, by configuration key. Places that an output cannot have are left out."""
        if is_own(self.format):  # as in `located`: the text may name a bucket or a database
            path = self.one_path()
            try:
                filesystem.absolute(path)
            except InputError:
                return {}
            return {"input.path": path}
        places: dict[str, str] = {}
        for key in PATHS:
            for path in filter(self._is_place, self.paths_of(key)):
                for one in expand(path) if format_of(self.format).patterns else [path]:
                    places[f"input.{key}" if f"input.{key}" not in places else f"input.{key}: {one}"] = one
        return places


class DataFrameInput(InputConfig):
    """The rows of a DataFrame that a program passes in."""

    format: Literal["dataframe"] = "dataframe"
    path: Literal["the DataFrame"] = "the DataFrame"

    @property
    def listed(self) -> bool:
        return False

    def located(self) -> dict[str, Any]:
        return self.model_dump(exclude=unhashed(InputConfig))

    def paths(self) -> dict[str, str]:
        return {}


@tells_formats
class PreprocessConfig(Config):
    """The configuration of `preprocess`: raw rows become a prepared data set."""

    input: InputConfig = Field(default_factory=InputConfig)
    output: Annotated[_Filled, Mark(hashed=False)]
    """The folder of the prepared data set."""
    validation: Fraction = 0.1
    """Fraction of the training rows for the validation split. For `cut.by: features` and `cut.by: key`, this is the
    fraction of the groups. Text: the part after the training text. Not used with `input.validation` or `cut.by:
    column`."""
    test: Fraction = 0.0
    """Fraction of the training rows for the test split. For `cut.by: features` and `cut.by: key`, this is the fraction
    of the groups. Text: the last part of the text. Not used if the input has its own test split (`input.test`, or the
    t10k files of an idx folder)."""
    seed: Annotated[int, Field(ge=0, lt=2**63), used_by("columns", "idx")] = 1
    """Seed of the hash that assigns rows to validation and test."""
    cut: CutConfig = Field(default_factory=CutConfig)
    """How rows are assigned to train, validation and test. Not for the format text."""
    features: Annotated[Features | None, BeforeValidator(_no_list)] = None
    """How columns become features: {COLUMN: KIND}, or {COLUMN: {kind: KIND, ...}} with the keys of the kind. A column
    that is not named gets a kind by its type. {}: all columns get a kind by their type. null: like {} if a column holds
    texts, dates or timestamps, or an array beside other columns; otherwise all columns form one tensor of numbers, x.
    Not for the formats idx, images and text."""
    fitted: Annotated[_Filled | None, Mark(hashed=False)] = None
    """Folder of an earlier data set or run. Everything fitted there (features, scales, classes) is applied as it is,
    and nothing is fitted on the new rows. From a data set, the lanes and blocks are used too, so that `train` can read
    both data sets together."""
    unseen_labels: Annotated[Literal["error", "unknown", "drop"], used_by("columns", "idx")] = "error"
    """What to do with validation and test rows whose label occurs in no training row. error: the job ends with an
    error. unknown: the rows get an additional class, `<unknown>`. drop: the rows are left out and counted. Only for
    labels that are classes."""
    scaling: Literal["none", "unit", "standard"] = "none"
    """Scaling of the features, fitted on the training split. unit: the minimum becomes 0 and the maximum 1. standard:
    the mean becomes 0 and the standard deviation 1. none: no scaling, except that mixed columns (`features`) use
    standard."""
    scaling_by: Literal["tensor", "feature"] = "tensor"
    """Number of scales for `scaling: unit` and `scaling: standard`. tensor: one scale for the whole tensor, for example
    for pixels. feature: one scale for each value, for example for columns in different units."""
    label_scaling: Literal["none", "standard"] | None = None
    """Scaling of labels that are numbers. standard: the model is trained on labels with mean 0 and standard deviation
    1, fitted on the training split. If a label has several numbers, each number has its own scale. Metrics, predictions
    and the exported model use the original units. null: standard for mixed columns (`features`), otherwise none."""
    lanes: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Number of lanes. A lane is a fixed stream of rows, and each lane belongs to one node. A run can therefore not use
    more nodes than lanes. null: 96, and up to 1536 if each lane then has at least 1000 rows and 4 MiB."""
    file_size: Annotated[_AtLeast1, Mark(safe=True)] = 128 * 1024 * 1024
    """Target size of each file in bytes, before compression. The number of lanes does not change this size. Small data
    sets get smaller files, of at least 8 MiB, so that several tasks can write."""
    block_size: Annotated[int, Field(ge=1024)] = 512 * 1024
    """Target size of each block in bytes. A block is the unit that nodes read, and has 16 to 4096 rows. With more than
    384 lanes, blocks are smaller, so that a node that reads all lanes does not need more memory."""
    executors: Annotated[_AtLeast1, Mark(hashed=False)] = 2
    """Number of executors in the local cluster. The command starts a local cluster if spark-submit names no master."""
    queue_timeout: Annotated[float, Field(gt=0), Mark(hashed=False)] = QUEUE_SECONDS
    """Seconds to wait until the cluster grants an executor. A busy queue may need more. If all executors are lost while
    the command works, a new executor must be granted and must start within this time."""
    start_timeout: Annotated[float, Field(gt=0), Mark(hashed=False)] = START_SECONDS
    """Seconds to wait at the beginning until a granted executor has started. A host without a copy of the environment's
    archive needs minutes to fetch the archive. After a loss of all executors, only `queue_timeout` counts."""

    def config_hash(self, function: str | None = None, fitted: str | None = None) -> str:
        """Return the hash of everything that can change the result.

        function: source text of the user's function that returns the rows, or None
        fitted: digest of the data set or run that `fitted` names, or None
        """
        more = {"function": function, "fitted": fitted}
        return digest({**self.hashed(), **{name: text for name, text in more.items() if text is not None}})

    def hashed(self) -> dict[str, Any]:
        """The values that can change the result."""
        values = self.model_dump(exclude={"input", *unhashed(PreprocessConfig)})
        return {**values, "input": self.input.located(), "rules": RULES}

    @property
    def patience(self) -> Patience:
        """How long to wait for executors."""
        return Patience(self.queue_timeout, self.start_timeout)

    def check_label_scaling(self, kind: str | None) -> None:
        """Raise ConfigError if `label_scaling` is standard, but labels of this kind are not numbers."""
        if self.label_scaling == "standard" and kind != "number":
            raise self.error("label_scaling", "needs labels that are numbers (input.label_type: number)")

    def scales_label(self, kind: str | None, table: bool) -> bool:
        """Return whether labels of this kind are scaled by the training rows. table: whether the features are mixed
        columns"""
        wanted = self.label_scaling or ("standard" if table and self.fitted is None else "none")
        return wanted == "standard" and kind == "number"


class DataFramePreprocess(PreprocessConfig):
    """The configuration of `preprocess` for the rows of a DataFrame."""

    input: DataFrameInput
