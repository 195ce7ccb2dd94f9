"""Features of every kind, and messy rows for them."""

import datetime
import random

import numpy as np
import pyarrow as pa

from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.dataset.feature_spec import Category, Date, Number, Scaled, Text
from sparksplit.features.encoding import index_dtype

WORDS = ["the", "naïve", "Straße", "café", ",", "!", "😀", "日本語", "x_1", "don't", "THE", "\t", "\u00a0", "１", "é"]
CATEGORIES = ["red", "Red", "grün", "", "a b", "😀", "\u202e", "0", "true", "\x01"]
CATEGORIES += ["True", " FALSE", "false", "truer", "tr\u00dce", "12.0", " +012", "-7.", "1.5", "-0"]


def description(log1p=True):
    """Of a table with features of every kind, in tensors whose places are not in the order of the features.

    log1p: whether one is a logarithm, whose last bit NumPy and TensorFlow may have differently."""
    given = [
        ("f8", Number(column="age", scaled=Scaled(impute=40.25, offset=38.58, scale=0.0733), indicator=True, **_at())),
        ("f8", Number(column="hours-per-week", clip=(1.5, 1e6), log1p=log1p, scaled=Scaled(impute=3.1), **_at())),
        ("f8", Number(column="buckets", buckets=[-1e300, -0.1, 0.0, 0.1, 1e9], **_at())),
        ("f4", Number(column="1st", values=3, scaled=_each(3), indicator=True, **_at())),
        ("i8", Number(column="count", scaled=Scaled(impute=1e12, offset=123456789.125, scale=3e-10), **_at())),
        ("i4", Number(column="whole", clip=(-1000, 1000), scaled=Scaled(offset=0.1, scale=0.3), **_at())),
        ("i1", Number(column="small", scaled=Scaled(impute=-3.3, offset=0.1, scale=0.3), indicator=True, **_at())),
        ("i1", Number(column="place", buckets=[-5, 0, 0.5, 70], encoding="embedding", **_at())),
        ("u1", Category(column="class", vocabulary=["red", "grün", "a b", "😀", "\x01"], **_at())),
        ("u1", Category(column="one hot", vocabulary=["Red", "0"], encoding="one-hot", **_at())),
        ("u2", Category(column="größe", hash=1000, **_at())),
        ("u1", Category(column="flag", vocabulary=["true", "false"], **{**_at(), "type": "boolean"})),
        ("u1", Category(column="digits", vocabulary=["-7", "0", "12"], **{**_at(), "type": "bigint"})),
        ("i4", Date(column="day", parts=["month", "day", "weekday", "hour"], since="2000-02-29", **_at())),
        ("i8", Date(column="moment", moment=True, parts=["hour", "weekday"], since="1999-12-31", **_at())),
        ("i4", Date(column="us", format="M/d/yyyy", parts=["month", "day"], **_at())),
        ("i8", Date(column="on.at", moment=True, format="dd.MM.yyyy 'at' H:mm:ss.SSS", parts=["hour", "day"], **_at())),
        ("i8", Date(column="date", moment=True, parts=["day", "month"], scaled=Scaled(scale=2.0), **_at())),
        ("u1", Text(column="words", values=6, vocabulary=[word.lower() for word in WORDS[:9]], **_at())),
        (
            "u1",
            Text(column="the letters.1", values=5, unit="characters", lowercase=False, vocabulary=[*"aT é😀"], **_at()),
        ),
    ]
    # The last feature of a tensor is its first value.
    widths: dict[str, int] = {}
    features = []
    for tensor, feature in reversed(given):
        place = widths.get(tensor, 0)
        widths[tensor] = place + feature.values
        features.append(feature.model_copy(update={"tensor": tensor, "place": place}))
    features.reverse()
    tensors = [TensorSpec(name=name, dtype=np.dtype(name).name, shape=[width]) for name, width in widths.items()]
    assert all(index_dtype(feature.size) in ("uint8", "uint16") for feature in features if hasattr(feature, "size"))
    label = LabelSpec(dtype="int64", classes=["no", "yes"])
    return Description(tensors=tensors, label=label, preprocessing=FittedPreprocessing(), features=features)


def _at():
    return {"type": "string", "tensor": "", "place": 0}


def _each(values):
    numbers = [0.37 * value + 0.1 for value in range(values)]
    return Scaled(impute=numbers, offset=numbers[::-1], scale=numbers)


def messy(features, rows, seed):
    """Raw rows as Arrow has them: one array of each feature."""
    chance = random.Random(seed)
    return [_column(feature, rows, chance) for feature in features]


def _column(feature, rows, chance):
    if isinstance(feature, Number):
        dtype = np.dtype(feature.tensor)
        kind = pa.from_numpy_dtype(dtype)
        if feature.values > 1:
            values = [[_number(dtype, chance) for _ in range(feature.values)] for _ in range(rows)]
            return pa.array([None if chance.random() < 0.1 else row for row in values], pa.list_(kind))
        return pa.array([_number(dtype, chance) for _ in range(rows)], kind)
    value = {Category: _category, Text: _text, Date: _date}[type(feature)]
    return pa.array([None if chance.random() < 0.1 else value(feature, chance) for _ in range(rows)], pa.string())


def _number(dtype, chance):
    if chance.random() < 0.1:
        return None
    if dtype.kind == "i":
        least, most = np.iinfo(dtype).min + 1, min(np.iinfo(dtype).max, 2**53)
        return chance.choice([0, -1, least if least > -(2**53) else -(2**53), most, chance.randint(-100, 100)])
    most = 3e38 if dtype.itemsize == 4 else 1e38
    return float(
        dtype.type(chance.choice([0.0, -0.0, 0.1, -most, most, 1e-3, chance.gauss(0, 1), chance.gauss(0, 1e5)]))
    )


def _category(feature, chance):
    return chance.choice([*CATEGORIES, _character(chance) + str(chance.randrange(50))])


def _text(feature, chance):
    parts = [chance.choice([*WORDS, " ", " ", "\n", _character(chance)]) for _ in range(chance.randrange(12))]
    return chance.choice(["", " "]).join(parts)


def _character(chance):
    return chr(
        chance.choice([chance.randrange(1, 128), chance.randrange(0xA0, 0x500), chance.randrange(0x3040, 0xD7A0)])
    )


def _date(feature, chance):
    if feature.format is not None:
        year, month, day = chance.randint(1, 9999), chance.randint(1, 12), chance.randint(1, 28)
        if not feature.moment:
            return chance.choice([f"{month}/{day}/{year:04}", f"{month:02}/{day:02}/{year:04}", ""])
        time = f"{chance.randrange(24)}:{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(1000):03}"
        return f"{day:02}.{month:02}.{year:04} at {time}"
    day = chance.choice(["2024-02-29", "1900-02-28", "0001-01-01", "9999-12-31", "1969-12-31", "", None])
    day = str(datetime.date(1, 1, 1) + datetime.timedelta(chance.randrange(3652059))) if day is None else day
    if not feature.moment or not day or chance.random() < 0.2:
        return day
    time = f"{chance.randrange(24):02}:{chance.randrange(60):02}"
    if chance.random() < 0.7:
        time += f":{chance.randrange(60):02}" + chance.choice(["", "", ".5", ".000001", ".123456789"])
    zone = f"{chance.choice('+-')}{chance.randrange(24):02}:{chance.randrange(60):02}"
    return day + chance.choice("T ") + time + chance.choice(["", "Z", zone])


def raw(features, columns):
    """What the exported model takes of raw columns, in NumPy: float64 with NaN, and texts, "" where one is missing."""
    return [_raw(feature, column) for feature, column in zip(features, columns, strict=True)]


def _raw(feature, column):
    if not isinstance(feature, Number):
        return np.array([(text or "").encode() for text in column.to_pylist()], object)
    if feature.values == 1:
        return np.array([np.nan if value is None else float(value) for value in column.to_pylist()])
    rows = [row or [None] * feature.values for row in column.to_pylist()]
    return np.array([[np.nan if value is None else value for value in row] for row in rows], np.float64)
