"""Images: PNG and JPEG, in folders by class or in a column of encoded bytes; decoded and resized in executors.

Rows hold pixels, not encoded bytes: all rows of a prepared data set have the same size, and nodes would decode every
image again in each epoch.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, UnidentifiedImageError

from hdfs_io.preprocessing import TensorSpec

_FORMATS = ("PNG", "JPEG")
_MODES = {1: "L", 3: "RGB"}
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes whose values are 8 bits or fewer; it would cut others off at 255."""


class NoImage(Exception):
    """What was to be decoded is no image that can be taken; the text says why."""


@dataclass(frozen=True)
class Decoder:
    """Makes pixels of a column of encoded images. channels: 1 (grey) or 3 (red, green, blue)."""

    height: int
    width: int
    channels: int

    @property
    def tensor(self) -> TensorSpec:
        """What an image becomes: uint8 [height, width, channels]."""
        return TensorSpec(name="x", dtype="uint8", shape=[self.height, self.width, self.channels])

    def values(self, encoded: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """(the pixels, and which of them could not be had), both [rows, values]."""
        values = np.zeros((len(encoded), self.tensor.values), np.uint8)
        wrong = np.zeros(values.shape, np.bool_)
        for row, content in enumerate(encoded):
            try:
                values[row] = self.pixels(content.as_py()).reshape(-1)
            except NoImage:
                wrong[row] = True
        return values, wrong

    def problem(self, content: bytes | None) -> str:
        """Why `content` has no pixels; empty where it has."""
        try:
            self.pixels(content)
        except NoImage as error:
            return str(error)
        return ""

    def pixels(self, content: bytes | None) -> npt.NDArray[np.uint8]:
        """The image, decoded and resized: uint8 [height, width, channels]. Raises NoImage."""
        if content is None:
            raise NoImage("is null")
        mode, size = _MODES[self.channels], (self.width, self.height)
        try:
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                if image.mode not in _EIGHT_BITS:
                    raise NoImage(f"its pixels have more than 8 bits (Pillow's mode {image.mode})")
                image.draft(mode, size)  # decodes a large JPEG at the half, quarter or eighth that is large enough
                pixels = image.convert(mode)
        except UnidentifiedImageError:
            raise NoImage("is no PNG or JPEG image") from None
        except Image.DecompressionBombError as error:
            raise NoImage(f"is too large: {' '.join(str(error).split())}") from None
        except (OSError, SyntaxError, ValueError, EOFError) as error:  # Pillow's for what is damaged
            raise NoImage(f"is damaged: {' '.join(str(error).split())}") from None
        if pixels.size != size:
            pixels = pixels.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(pixels, np.uint8).reshape(self.height, self.width, self.channels)
