"""The configuration of raw input and of `preprocess`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hdfs_io import filesystem
from hdfs_io.listing import expand
from sparksplit.base.config import Config, digest
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.base.user_functions import is_own
from sparksplit.features.config import Features
from sparksplit.prepare import characters
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.durations import seconds
from sparksplit.prepare.formats import PATHS, format_of, known_format
from sparksplit.prepare.windows_config import WindowsConfig
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS, Patience

Fraction = Annotated[float, Field(ge=0, lt=1)]
Dtype = Literal[
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"
]


RULES = 4
"""Version of the rules for reading, numbering, cutting and fitting rows. Goes up by one when the same configuration
would give other rows or numbers, so that nothing made by the earlier rules is taken for complete."""

_Path = Annotated[str, Field(min_length=1)]
Paths = _Path | Annotated[list[_Path], Field(min_length=1)]
"""A path, or several."""


class InputConfig(Config):
    """Raw rows: where they are and how to read them."""

    format: Annotated[str, AfterValidator(known_format)] = "idx"
    """idx: a folder with MNIST's four standard file names; csv: a file or a folder of them; text: UTF-8, a file or a
    folder of them, read as one text in the order of their names. Any of them may be .gz. parquet, orc, json, avro:
    files that Spark reads; tfrecord: files of tf.train.Example; images: PNG and JPEG; table: a table of Spark's catalog
    (Hive); sql: a query. Or your own function, `package.module:function` or `path/to/file.py:function`: f(spark, path)
    returns a DataFrame."""
    path: Paths | None = None
    """The IDX folder; the CSV or text file to train on, or a folder of them; what your own function is to be given.
    parquet, orc, json, avro, tfrecord, images: a file, a folder with its sub-folders (those of partition columns give
    columns), a pattern or a list of them, wherever Spark can read. Not for table and sql."""
    validation: Paths | None = None
    """parquet, orc, json, avro, tfrecord, images: files of your own, given like the path, that stay the validation
    split."""
    test: Paths | None = None
    """Files of your own test split. csv, text: a file or a folder. Other file formats: given like input.path. An IDX
    folder brings its own, the t10k files."""
    table: Annotated[str, Field(min_length=1)] | None = None
    """table: its name in Spark's catalog, such as the Hive metastore's: DATABASE.TABLE."""
    query: Annotated[str, Field(min_length=1)] | None = None
    """sql: the SELECT whose rows are to be read."""
    label: int | str | None = -1
    """Where rows have columns: the label's by name (in a csv with a header) or position (0 is the first, -1 the last,
    which is taken for csv alone where nothing is given). null, with any format: no labels. The label of a text is
    the next token at each position, that of an image the name of its folder where nothing is given."""
    label_type: Literal["auto", "integer", "text", "number"] = "auto"
    """All but text. integer, text: the labels are classes. number: the labels are numbers to predict. auto decides by
    the first rows of a csv or hive-text, and otherwise by the column's type. Labels with a point are then numbers,
    except exactly 0.0 and 1.0: these are integers."""
    header: bool = True
    """csv: whether the first line of each file names the columns."""
    columns: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """csv without a header, hive-text: the columns' names, all of them; otherwise they go by position."""
    delimiter: Annotated[str, AfterValidator(characters.delimiter)] = ","
    """csv, hive-text (^A there): what separates the columns: one ASCII character, or tab, space, comma, semicolon or
    pipe by name, or an escape such as \\t, \\x01, \\001 or ^A."""
    quote: Annotated[str, AfterValidator(characters.mark)] | None = '"'
    """csv: the character around a cell that holds delimiters or line ends; null: none."""
    escape: Annotated[str, AfterValidator(characters.mark)] | None = None
    """csv: the character that stands before a quote within quotes; null: the quote itself."""
    multiline: bool = False
    """csv: whether a quoted cell may hold line ends. A file is then read by one task, however large."""
    nulls: list[str] = Field(default_factory=lambda: [""])
    """csv, hive-text (\\N and the empty cell there): texts that stand for a missing value."""
    encoding: str = "UTF-8"
    """csv, hive-text: the files' encoding, by Java's names, such as ISO-8859-1 or windows-1252."""
    comment: Annotated[str, AfterValidator(characters.mark)] | None = None
    """csv, hive-text: lines that begin with this character are left out."""
    dtype: Dtype | None = None
    """All but text: the exact type that values are stored in; null: the IDX file's own, otherwise float32."""
    shape: list[Annotated[int, Field(gt=0)]] | None = None
    """All but text: the shape of one row's tensor; null: the IDX file's own, otherwise one dimension."""
    keep: list[int | str] = Field(default_factory=list)
    """Where rows have columns: those to carry along as text, by name or position; they are not features."""
    weight: int | str | None = None
    """Where rows have columns: the one that says how much a row counts in the loss and in the metrics, by name or
    position: numbers of 0 or more. It is no feature."""
    missing: Literal["error", "mean"] = "error"
    """Where rows have columns: error: an empty cell makes its row bad; mean (float dtypes only): it is filled with its
    column's mean over the training split. Of windows, error leaves out those with an empty cell."""
    windows: WindowsConfig | None = None
    """Where rows have columns that are numbers: rows over time become windows, from which the label's next values are
    predicted; null: rows stay as they are. predict leaves this out, and does what was done for the model."""
    size: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=2, max_length=2)] | None = None
    """images: [height, width] in pixels that each becomes; required, except to predict (null: the model's)."""
    channels: Literal[1, 3] = 3
    """images: 3: red, green and blue; 1: grey."""
    wait: Annotated[float, BeforeValidator(seconds), Field(gt=0)] | None = None
    """Files: how long to wait until there are rows at every path: 90s, 30m, 2h; null: not at all. Of `{mon,tue}` both
    must have some. An empty file or folder counts as not there yet. So does a folder in which Spark or Hadoop is still
    writing (`_temporary`, `._COPYING_`)."""
    exif: bool = True
    """images: turn and mirror each image as its EXIF orientation says. `predict` does what was done for the model."""
    column: Annotated[str, Field(min_length=1)] | None = None
    """images: the column of Parquet files at the path that holds encoded images; null: the files at the path are
    images, and the name of a file's folder is its label."""
    unit: Literal["characters", "words"] = "characters"
    """text: what a token is. A word is a run of letters, digits and _, or any one other mark except white space."""
    length: Annotated[int, Field(ge=1)] = 40
    """text: tokens in one sequence."""
    stride: Annotated[int, Field(ge=1)] | None = None
    """text: tokens from the start of one sequence to the start of the next, at most the length; null: the length."""
    max_sequences: Annotated[int, Field(ge=1)] | None = None
    """text: use only as much of the text's beginning as gives this many sequences, before cutting splits; null: all."""
    vocabulary: Annotated[int, Field(ge=1)] | None = None
    """text: keep this many tokens, the most frequent in the training split (ties: the lowest code point first), and
    read all others as unknown; null: every token of the training split."""
    max_bad_rows: Annotated[int, Field(ge=0)] = 0
    """Where rows have columns: bad rows to leave out, and keep in bad_rows/ with the reason; one more ends the job."""
    max_bad_fraction: Fraction | None = None
    """Where rows have columns: the job ends if more than this fraction of all rows is bad. Set alone, it replaces
    max_bad_rows. If both are set, the stricter limit holds."""

    @property
    def place(self) -> str:
        """What errors call the rows."""
        return self.table or ("the query" if self.query else "; ".join(self.paths_of("path")))

    def paths_of(self, key: str) -> list[str]:
        """The paths under `key`: path, validation or test; empty where there is none."""
        given: str | list[str] | None = getattr(self, key)
        return [given] if isinstance(given, str) else list(given or ())

    def one_path(self, key: str = "path") -> str:
        """The only path under `key`. Raises ConfigError where it is a list."""
        given = self.paths_of(key)
        if len(given) != 1:
            error: ConfigError = self.error(key, f"must be one path for {self.format} (is a list of {len(given)})")
            raise error
        return given[0]

    @property
    def listed(self) -> bool:
        """Whether the rows are in files that can be looked at without Spark."""
        there = [path for key in PATHS for path in self.paths_of(key)]
        return not is_own(self.format) and bool(there) and all(map(filesystem.is_known, there))

    def located(self) -> dict[str, Any]:
        """The values, with paths that do not depend on the working folder."""
        if is_own(self.format):  # its function may be given anything, a table's name for instance
            return self.model_dump(exclude={"wait"})
        return {**self.model_dump(exclude={"wait"}), **{key: self._located(key) for key in PATHS}}

    def _located(self, key: str) -> str | list[str] | None:
        paths = [filesystem.absolute(path) if self._is_place(path) else path for path in self.paths_of(key)]
        return paths if isinstance(getattr(self, key), list) else paths[0] if paths else None

    def _is_place(self, path: str) -> bool:
        return not format_of(self.format).patterns or filesystem.is_known(path)

    def paths(self) -> dict[str, str]:
        """Where the rows are, by the key that gives it; left out where it is no place that an output could have."""
        if is_own(self.format):  # as in `located`: a bucket, a database
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
        return self.model_dump(exclude={"wait"})

    def paths(self) -> dict[str, str]:
        return {}


class PreprocessConfig(Config):
    """How raw data becomes a prepared data set."""

    input: InputConfig = Field(default_factory=InputConfig)
    output: Annotated[str, Field(min_length=1)]
    """The folder of the prepared data set."""
    validation: Fraction = 0.1
    """The share of the training rows (of the groups, where `cut` keeps groups together) that becomes the validation
    split; for a text, the stretch that follows the training split's."""
    test: Fraction = 0.0
    """The share of the training rows (of the groups, where `cut` keeps groups together) that becomes the test split,
    unless the source brings a test split. Text: the end of the text."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """All but text: the seed of the hash that cuts validation and test."""
    cut: CutConfig = Field(default_factory=CutConfig)
    """All but text: which rows become validation and test."""
    features: Features | None = None
    """Where rows have columns: what becomes of those that are features: {COLUMN: KIND}, or {COLUMN: {kind: KIND, ...}}
    with the keys of its kind. Columns that are not named go by their types; {}: all of them. null: the same where there
    are texts or times; columns that are all numbers are one tensor, x."""
    fitted: Annotated[str, Field(min_length=1)] | None = None
    """An earlier data set or run: what it has fitted (features, scales, classes) is applied as it is, and nothing is
    fitted on these rows. A data set's lanes and blocks are taken too, so that both can be trained on together."""
    unseen_labels: Literal["error", "unknown", "drop"] = "error"
    """All but text: what becomes of validation and test rows with a label that no training row has. error: the job
    ends; unknown: they get the class `<unknown>`, which the data set then has beside its labels; drop: they are left
    out, and counted."""
    scaling: Literal["none", "unit", "standard"] = "none"
    """unit: the training split's minimum becomes 0, its maximum 1; standard: its mean 0, its standard deviation 1."""
    scaling_by: Literal["tensor", "feature"] = "tensor"
    """With unit and standard: one scale for the whole tensor (pixels), or one for each value (columns in different
    units)."""
    label_scaling: Literal["none", "standard"] | None = None
    """Labels that are numbers. standard: a model is trained to give them with the training split's mean as 0 and its
    standard deviation as 1, each number of a label by itself; what is measured, exported and predicted is in the
    labels' own units. null: standard for a table (`features`), whose other numbers are scaled too, otherwise none."""
    lanes: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Fixed row streams that the data set is dealt into; no run can use more nodes than lanes. null: 96, and up to 1536
    where each lane then has at least 1000 rows and 4 MiB."""
    file_size: Annotated[int, Field(ge=1)] = 128 * 1024 * 1024
    """Bytes of rows to aim for in each file, before compression, whatever the lanes; smaller sets have smaller files,
    of 8 MiB at least, so that several tasks write them."""
    block_size: Annotated[int, Field(ge=1024)] = 512 * 1024
    """Bytes to aim for in a block, the unit that nodes read; a block has 16 to 4096 rows. Past 384 lanes blocks are
    smaller, so that a node that reads all lanes does not need more memory."""
    executors: Annotated[int, Field(ge=1)] = 2
    """Executors of the local cluster that is started where spark-submit names no master."""
    queue_timeout: Annotated[float, Field(gt=0)] = QUEUE_SECONDS
    """Seconds to wait until the cluster has granted an executor: a queue may be busy."""
    start_timeout: Annotated[float, Field(gt=0)] = START_SECONDS
    """Seconds from then on until the executor has started. A host that has no copy of the environment's archive takes
    minutes to fetch it."""

    def config_hash(self, function: str | None = None, fitted: str | None = None) -> str:
        """The hash of everything that can change the result. function: the source text of the user's own function,
        where the rows come from one. fitted: the digest of what is `fitted` already"""
        more = {"function": function, "fitted": fitted}
        return digest({**self.hashed(), **{name: text for name, text in more.items() if text is not None}})

    def hashed(self) -> dict[str, Any]:
        """The values that can change the result."""
        own = self.model_dump(exclude={"input", "output", "executors", "fitted", "queue_timeout", "start_timeout"})
        return {**own, "input": self.input.located(), "rules": RULES}

    @property
    def patience(self) -> Patience:
        """How long executors are waited for."""
        return Patience(self.queue_timeout, self.start_timeout)

    def check_label_scaling(self, kind: str | None) -> None:
        """Raise ConfigError where labels of this kind are to be scaled, and are no numbers."""
        if self.label_scaling == "standard" and kind != "number":
            raise self.error("label_scaling", "needs labels that are numbers (input.label_type: number)")

    def scales_label(self, kind: str | None, table: bool) -> bool:
        """Whether labels of this kind are to be scaled by the training rows. table: whether they are a table's."""
        wanted = self.label_scaling or ("standard" if table and self.fitted is None else "none")
        return wanted == "standard" and kind == "number"


class DataFramePreprocess(PreprocessConfig):
    """How the rows of a DataFrame become a prepared data set."""

    input: DataFrameInput
