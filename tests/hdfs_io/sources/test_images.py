"""Encoded images to pixels, and what is said of those that are none."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from hdfs_io.sources.images import Decoder

COLOURS = np.random.default_rng(1).integers(0, 256, (4, 6, 3), dtype=np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG", mode: str | None = None, **options: object) -> bytes:
    image = Image.fromarray(pixels)
    stream = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(stream, kind, **options)
    return stream.getvalue()


def smooth(height: int, width: int) -> np.ndarray:
    """A picture without detail, which no way of making it smaller changes much."""
    return np.linspace(0, 255, height * width * 3).reshape(height, width, 3).astype(np.uint8)


def test_pixels_of_a_png_are_its_own():
    assert Decoder(4, 6, 3).pixels(encoded(COLOURS)).tolist() == COLOURS.tolist()
    grey = COLOURS[:, :, 0]
    assert Decoder(4, 6, 1).pixels(encoded(grey)).tolist() == grey[:, :, None].tolist()
    assert Decoder(4, 6, 3).pixels(encoded(grey)).tolist() == np.repeat(grey[:, :, None], 3, axis=2).tolist()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_kind_of_pixel_of_8_bits_is_taken(mode):
    for channels in (1, 3):
        pixels = Decoder(4, 6, channels).pixels(encoded(COLOURS, mode=mode))
        assert pixels.shape == (4, 6, channels)
        assert pixels.std() > 0


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_jpeg_is_decoded_and_resized(mode):
    picture = smooth(640, 480)
    content = encoded(picture, "JPEG", mode, quality=95)
    wanted = np.asarray(Image.fromarray(picture).convert("L").resize((24, 32), Image.Resampling.BOX), float)
    assert np.abs(Decoder(32, 24, 1).pixels(content)[:, :, 0] - wanted).mean() < 3
    assert Decoder(32, 24, 3).pixels(content).shape == (32, 24, 3)


def test_what_is_no_image():
    decoder = Decoder(4, 6, 3)
    png, jpeg = encoded(COLOURS), encoded(smooth(64, 64), "JPEG")
    deep = encoded(np.arange(24, dtype=np.uint16).reshape(4, 6) * 1000)
    bad: dict[str, bytes | None] = {
        "is null": None,
        "is no PNG or JPEG image": b"hello",
        "is damaged: image file is truncated": png[: len(png) // 2],
        "is damaged: image file is truncated (": jpeg[:-40],
        "is damaged: broken data stream when reading image file": png[:50] + b"\0\0\0\0" + png[54:],
        "its pixels have more than 8 bits (Pillow's mode I;16)": deep,
    }
    assert [decoder.problem(content)[: len(reason)] for reason, content in bad.items()] == list(bad)
    assert decoder.problem(b"") == decoder.problem(encoded(COLOURS, "GIF")) == "is no PNG or JPEG image"
    assert decoder.problem(png) == ""
    values, wrong = decoder.values(pa.array([None, png, b"hello"], pa.binary()))
    assert wrong.all(axis=1).tolist() == [True, False, True]
    assert values[1].tolist() == COLOURS.reshape(-1).tolist()


def test_an_image_of_more_pixels_than_any_is_not_decoded(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert Decoder(4, 6, 3).problem(encoded(COLOURS)).startswith("is too large: Image size (24 pixels) exceeds limit")
