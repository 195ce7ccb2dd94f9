"""Encoded images to pixels, and what is said of those that are none."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image, ImageOps

from sparksplit.base.config import parse as parse_config
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import Description, FittedPreprocessing
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import turned_like
from sparksplit.prepare.sources.images import Decoder
from tests.prepare.sources.raw_columns import bad_of, source

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


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_is_turned_as_its_exif_orientation_says(kind):
    """As Pillow's own function turns it, also where a large JPEG is decoded at a part of its size."""
    for orientation in range(10):
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        for height, width in ((4, 6), (256, 384)):
            content = encoded(smooth(height, width), kind, quality=95, exif=exif)
            wanted = ImageOps.exif_transpose(image_of(content)).resize((12, 10), Image.Resampling.BOX)
            plain = image_of(content).resize((12, 10), Image.Resampling.BOX)
            for turned, other in ((wanted, True), (plain, False)):
                found = Decoder(10, 12, 3, exif=other).pixels(content).astype(int)
                assert np.abs(found - np.asarray(turned, int)).mean() < 16
            if (height, kind) == (4, "PNG"):
                turned = np.asarray(ImageOps.exif_transpose(image_of(content)))
                assert Decoder(*turned.shape[:2], 3).pixels(content).tolist() == turned.tolist()


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize(
    "exif", [b"", b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\0\x01", b"Exif\0\0nonsense", b"\xff" * 40]
)
def test_damaged_exif_turns_nothing(exif):
    assert Decoder(4, 6, 3).pixels(encoded(COLOURS, exif=exif)).tolist() == COLOURS.tolist()


def image_of(content):
    return Image.open(io.BytesIO(content))


def test_what_is_no_image():
    decoder = Decoder(4, 6, 3)
    png, jpeg = encoded(COLOURS), encoded(smooth(64, 64), "JPEG")
    deep = encoded(np.arange(24, dtype=np.uint16).reshape(4, 6) * 1000)
    bad: dict[str, bytes | None] = {
        "is null": None,
        "is not a PNG or JPEG image": b"hello",
        "is damaged: image file is truncated": png[: len(png) // 2],
        "is damaged: image file is truncated (": jpeg[:-40],
        "is damaged: broken data stream when reading image file": png[:50] + b"\0\0\0\0" + png[54:],
        "its pixels have more than 8 bits: Pillow's mode is I;16": deep,
    }
    assert [decoder.problem(content)[0][: len(reason)] for reason, content in bad.items()] == list(bad)
    assert decoder.problem(b"") == decoder.problem(encoded(COLOURS, "GIF")) == ("is not a PNG or JPEG image",) * 2
    assert decoder.problem(png[: len(png) // 2])[1] == "is damaged"
    assert decoder.problem(png) == ("", "")
    values, wrong = decoder.values(pa.array([None, png, b"hello"], pa.binary()))
    assert wrong.all(axis=1).tolist() == [True, False, True]
    assert values[1].tolist() == COLOURS.reshape(-1).tolist()


def test_an_image_of_more_pixels_than_any_is_not_decoded(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    reason, kind = Decoder(4, 6, 3).problem(encoded(COLOURS))
    assert reason.startswith("is too large: Image size (24 pixels) exceeds limit") and kind == "is too large"


def pixels_of(spark, opened):
    """(pixels of the first row and column, label, what is kept) of the good rows."""
    good = parse(spark, opened).where("bad is null").collect()
    shape = opened.tensors[0].shape
    return sorted(
        (np.frombuffer(row.tensor_0, "u1").reshape(shape)[0, 0].tolist(), row.label, *row[5 : 5 + len(opened.keep)])
        for row in good
    )


def picture(place, grey):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(encoded(np.full((8, 8), grey, np.uint8), "JPEG" if place.suffix == ".jpg" else "PNG"))


def test_folders_by_class(spark, tmp_path, elsewhere):
    raw = tmp_path / "raw 10%20"
    picture(raw / "cat" / "1.png", 10)
    picture(raw / "cat" / "2.jpg", 20)
    picture(raw / "dog [x]" / "1.png", 30)
    picture(tmp_path / "held" / "dog" / "1.png", 40)
    (raw / "cat" / "notes.txt").write_text("no image")
    keys = {"format": "images", "size": [4, 6], "max_bad_rows": 1}
    opened = source(spark, **keys, path=f"{raw}", test=f"{tmp_path}/held", keep=["path"])
    assert (opened.tensors[0].dtype, opened.tensors[0].shape, opened.label_kind) == ("uint8", [4, 6, 3], "text")
    assert [(pixel, label, kept.rpartition("/")[2]) for pixel, label, kept in pixels_of(spark, opened)] == [
        ([10] * 3, "cat", "1.png"), ([20] * 3, "cat", "2.jpg"), ([30] * 3, "dog [x]", "1.png"),
        ([40] * 3, "dog", "1.png"),
    ]  # fmt: skip
    (bad,) = bad_of(spark, opened, 1)
    assert str(bad) == f"{raw}/cat/notes.txt: a row: is not a PNG or JPEG image (class: cat)"
    far = source(spark, **keys, path=elsewhere(tmp_path, "held"), channels=1)
    assert pixels_of(spark, far) == [([40], "dog")]
    picture(raw / "3.png", 50)
    with pytest.raises(InputError, match=r"raw 10%20/3.png lies in a folder above that of .*, so the class is unclear"):
        source(spark, **keys, path=f"{raw}")


def test_folders_of_a_partition_column_and_whole_numbers_as_classes(spark, tmp_path):
    picture(tmp_path / "a" / "kind=1" / "1.png", 10)
    picture(tmp_path / "b" / "2" / "1.png", 20)
    named = source(spark, format="images", size=[1, 1], channels=1, path=f"{tmp_path}/a", label="kind")
    plain = source(spark, format="images", size=[1, 1], channels=1, path=f"{tmp_path}/b", label_type="integer")
    assert pixels_of(spark, named) == [([10], 1)]
    assert pixels_of(spark, plain) == [([20], 2)]


def test_a_column_of_encoded_images(spark, tmp_path):
    table = pa.table({"picture": [encoded(COLOURS), None], "kind": [3, 4], "more": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    keys = {"format": "images", "path": f"{tmp_path}/a.parquet", "size": [4, 6], "label": "kind"}
    opened = source(spark, **keys, column="picture", keep=["more"], max_bad_rows=1)
    assert pixels_of(spark, opened) == [(COLOURS[0, 0].tolist(), 3, "a")]
    (bad,) = bad_of(spark, opened, 1)
    assert str(bad) == f"{tmp_path}/a.parquet: a row: is null (kind: 4)"
    with pytest.raises(ConfigError, match=r"^column: must hold the bytes of PNG or JPEG files \(is bigint\)"):
        source(spark, **keys, column="kind")
    (tmp_path / "unlike").mkdir()
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        columns = {"picture": [encoded(COLOURS)], "kind": pa.array([ord(name)], kind), name: [name]}
        pq.write_table(pa.table(columns), tmp_path / "unlike" / name)
    both = source(spark, **{**keys, "path": f"{tmp_path}/unlike"}, column="picture", keep=["a", "b"])
    pixel = COLOURS[0, 0].tolist()
    assert pixels_of(spark, both) == [(pixel, ord("a"), "a", None), (pixel, ord("b"), None, "b")]
    with pytest.raises(ConfigError, match=r"^size: is required for images"):
        source(spark, **{**keys, "size": None}, column="picture")


def test_broken_images_without_labels(spark, tmp_path):
    picture(tmp_path / "folder" / "1.png", 10)
    (tmp_path / "folder" / "2.png").write_bytes(encoded(COLOURS)[:60])
    pq.write_table(pa.table({"picture": [encoded(COLOURS), b"no", None]}), tmp_path / "a.parquet")
    keys = {"format": "images", "size": [4, 6], "label": None, "max_bad_rows": 2}
    by_path = source(spark, **keys, path=f"{tmp_path}/folder")
    by_column = source(spark, **keys, path=f"{tmp_path}/a.parquet", column="picture")
    assert [len(parse(spark, opened).where("bad is null").collect()) for opened in (by_path, by_column)] == [1, 1]
    assert [str(bad).partition(" (")[0] for bad in bad_of(spark, by_path, 2)] == [
        f"{tmp_path}/folder/2.png: a row: is damaged: image file is truncated"
    ]
    assert sorted(str(bad) for bad in bad_of(spark, by_column, 2)) == [
        f"{tmp_path}/a.parquet: a row: is not a PNG or JPEG image", f"{tmp_path}/a.parquet: a row: is null",
    ]  # fmt: skip


def test_images_are_turned_as_those_of_the_model_were():
    config = parse_config(InputConfig, {"format": "images", "path": "x", "size": [1, 1]})
    for exif in (True, False, None):
        trained = Description(tensors=[], label=None, preprocessing=FittedPreprocessing(), exif=exif)
        assert Description.model_validate(trained.model_dump()) == trained
        assert turned_like(config, trained).exif == (exif is not False)
    assert turned_like(config, None) is config
    asked = parse_config(InputConfig, {"format": "images", "path": "x", "size": [1, 1], "exif": True})
    with pytest.raises(ConfigError, match=r"^exif: must be false, as for the images that the model was trained on"):
        turned_like(asked, trained.model_copy(update={"exif": False}))
