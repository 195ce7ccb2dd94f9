"""Reads PNG and JPEG images, in folders by class or in a column of encoded bytes. Executors decode and resize them.

Rows hold pixels, not encoded bytes. All rows of a prepared data set have the same size, and nodes would decode every
image again in each epoch.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import ExifTags, Image, UnidentifiedImageError

from hdfs_io.filesystem import FileFacts
from hdfs_io.listing import Found
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import TensorSpec
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables import same_columns
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.raw_frame import RawFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABEL, PATH = "class", "path"
"""Columns of folders of images: the name of a file's folder, and the file's path."""
_IMAGE, _FILE = "image", "the file"
_IMAGE_BYTES = 128 * 1024
"""Assumed bytes of an encoded image of unknown size."""
_FILE_COST = 64 * 1024
"""Cost of opening a file, in bytes that could be read in the same time."""
_TASK_BYTES = 32 * 1024 * 1024

_FORMATS = ("PNG", "JPEG")
_MODES = {1: "L", 3: "RGB"}
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transpositions by EXIF orientation, as in Pillow's exif_transpose."""
_SIDEWAYS = {_TURNS[orientation] for orientation in (5, 6, 7, 8)}
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes with values of at most 8 bits. Pillow would cut off other values at 255."""


def read(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read files, each an image whose class is the name of its folder. With `input.column`, read a column of Parquet
    files.

    Raise ConfigError if the column does not hold bytes. Raise InputError if a file lies beside folders of classes.
    """
    decoder = _decoder(config)
    if config.column is not None:
        table = same_columns.rows(spark, config.model_copy(update={"format": "parquet"}), found)
        kinds = dict(table.types)
        if config.column not in kinds:
            raise config.error("column", f"{config.place} has no column {config.column!r}; it has {', '.join(kinds)}")
        if kinds[config.column] != "binary":
            raise config.error("column", f"must hold the bytes of PNG or JPEG files (is {kinds[config.column]})")
        return replace(table, decoded=(config.column, decoder), row_bytes=_IMAGE_BYTES)
    _check_folders(config.place, [path for path, _ in found.files])
    listed = spark.read.format("binaryFile").options(**EVERY_FOLDER).load(found.roots)
    columns, label = [], None
    if not found.columns:  # the folders' columns are the label, or kept
        label = LABEL
        kind = {"integer": "bigint", "number": "double"}.get(config.label_type, "string")
        columns = [f"CAST(element_at(split(path, '/'), -2) AS {kind}) AS {LABEL}"]
    images = listed.selectExpr(f"content AS {_IMAGE}", PATH, *columns, f"_metadata.file_path AS `{_FILE}`")
    # Spark gives 30 files to a task, however small they are.
    images = images.coalesce(_tasks(found.files, spark.sparkContext.defaultParallelism))
    largest = max(facts.bytes for _, facts in found.files)
    return RawFrame(images, f"`{_FILE}`", hidden=(_FILE,), label=label, decoded=(_IMAGE, decoder), row_bytes=largest)


def _decoder(config: InputConfig) -> Decoder:
    if config.size is None:
        error: ConfigError = config.error("size", "is required for images: [height, width]")
        raise error
    return Decoder(config.size[0], config.size[1], config.channels, config.exif)


def _check_folders(place: str, files: Sequence[str]) -> None:
    """Raise InputError if a folder that holds files also holds a folder of another class."""
    folders = {path.rpartition("/")[0]: path for path in files}
    for folder, path in folders.items():
        outer = folder
        while outer := outer.rpartition("/")[0]:
            if outer in folders:
                raise InputError(
                    f"{place}: {folders[outer]} lies in a folder above that of {path}, so the class is unclear. "
                    "Put the images of each class into one folder, and no folder inside"
                )


def _tasks(files: Sequence[tuple[str, FileFacts]], slots: int) -> int:
    """Return how many tasks read these files."""
    size = sum(facts.bytes + _FILE_COST for _, facts in files)
    return max(1, min(len(files), max(2 * slots, -(-size // _TASK_BYTES))))


class NoImage(Exception):
    """The bytes are no image that can be decoded. The text says why."""


def _turn(image: Image.Image) -> Image.Transpose | None:
    """Return the transposition for an image's EXIF orientation, or None if the image stays as it is."""
    try:
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, struct.error):  # Pillow's errors for damaged EXIF
        return None


@dataclass(frozen=True)
class Decoder:
    """Decodes a column of images into pixels.

    channels: 1 (grey) or 3 (red, green, blue).
    exif: whether to rotate and mirror images by their EXIF orientation.
    """

    height: int
    width: int
    channels: int
    exif: bool = True

    @property
    def tensor(self) -> TensorSpec:
        """The tensor of an image: uint8 [height, width, channels]."""
        return TensorSpec(name="x", dtype="uint8", shape=[self.height, self.width, self.channels])

    def values(self, encoded: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """Return (the pixels, which of them could not be decoded), both [rows, values]."""
        values = np.zeros((len(encoded), self.tensor.values), np.uint8)
        wrong = np.zeros(values.shape, np.bool_)
        for row, content in enumerate(encoded):
            try:
                values[row] = self.pixels(content.as_py()).reshape(-1)
            except NoImage:
                wrong[row] = True
        return values, wrong

    def problem(self, content: bytes | None) -> tuple[str, str]:
        """Return (why `content` cannot be decoded, the reason without details of this image). Empty if it can."""
        try:
            self.pixels(content)
        except NoImage as error:
            return str(error), str(error).partition(":")[0]
        return "", ""

    def pixels(self, content: bytes | None) -> npt.NDArray[np.uint8]:
        """Return the decoded and resized image: uint8 [height, width, channels]. Raise NoImage if it cannot be
        decoded."""
        if content is None:
            raise NoImage("is null")
        mode, size = _MODES[self.channels], (self.width, self.height)
        try:
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                if image.mode not in _EIGHT_BITS:
                    raise NoImage(f"its pixels have more than 8 bits: Pillow's mode is {image.mode}")
                if image.format == "PNG":
                    image.load()  # EXIF may follow the pixels, and damaged pixels are no damaged EXIF
                turn = _turn(image) if self.exif else None
                # Decodes a large JPEG at a half, a quarter or an eighth of its size, if that is large enough.
                image.draft(mode, size[::-1] if turn in _SIDEWAYS else size)
                pixels = image.convert(mode)
        except UnidentifiedImageError:
            raise NoImage("is not a PNG or JPEG image") from None
        except Image.DecompressionBombError as error:
            raise NoImage(f"is too large: {' '.join(str(error).split())}") from None
        except (OSError, SyntaxError, ValueError, EOFError) as error:  # Pillow's errors for damaged images
            raise NoImage(f"is damaged: {' '.join(str(error).split())}") from None
        if turn is not None:
            pixels = pixels.transpose(turn)
        if pixels.size != size:
            pixels = pixels.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(pixels, np.uint8).reshape(self.height, self.width, self.channels)
