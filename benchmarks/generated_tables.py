"""Generated data of the kinds that companies have: tables of mixed columns, texts, hourly series, folders of images.

Everything follows from a seed. The two tables have interactions planted that a linear model cannot have: groups of one
column that turn another column's effect around, and numbers that count most in their middle. NumPy, pyarrow and Pillow
only, so that tests use it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

CENSUS_LABEL, AIRLINE_LABEL, TEXTS_LABEL = "earns_more", "delayed", "topic"
TOPICS = ("billing", "delivery", "login", "praise", "refund", "returns")
SHAPES = ("circle", "cross", "frame", "stripes")
AIRPORTS = 300
_EPOCH = np.datetime64("2024-01-01T00:00:00", "us")


def census(rows: int, seed: int = 1) -> pa.Table:
    """15 columns like a census's, of numbers, categories, a boolean and a date, six of them with nulls, and the label
    `earns_more` (yes or no, about 30 % yes)."""
    random = np.random.default_rng([1, seed])
    age = np.clip(random.gamma(6, 7, rows), 17, 90).astype(np.int32)
    years = np.clip(random.normal(12, 3, rows).round(), 4, 20).astype(np.int32)
    hours = np.clip(random.normal(40, 11, rows), 1, 99).round(1)
    savings = random.lognormal(8, 1.5, rows).round(2)
    gain = np.where(random.random(rows) < 0.08, random.lognormal(8, 1, rows), 0).round(2)
    children = random.poisson(1.2, rows).astype(np.int16)
    distance = random.exponential(15, rows).astype(np.float32)
    days = random.integers(0, 3650, rows)
    owner = random.random(rows) < 0.45
    city = random.random(rows) < 0.35
    work = _category(random, rows, "work", 7)
    occupation = _category(random, rows, "occupation", 14)
    family = _category(random, rows, "family", 5)
    region = _category(random, rows, "region", 30)
    industry = _category(random, rows, "industry", 20)
    # What the columns do, the same whatever the seed: first each on its own, as a linear model has it.
    effects = np.random.default_rng(11)
    score = 0.25 * (years - 12) / 3 + 0.25 * (gain > 0) + 0.15 * (np.log(savings) - 8)
    score += effects.normal(0, 0.3, 14)[occupation] + effects.normal(0, 0.2, 30)[region]
    # Then what only two of them together say.
    score += 1.2 * np.exp(-(((age - 45) / 11) ** 2)) - 0.5
    score += 0.9 * effects.choice([-1, 1], (14, 7))[occupation, work]
    score += 0.7 * np.where(owner, 1, -1) * np.tanh((hours - 40) / 6)
    score += 0.6 * effects.choice([-1, 1], (5, 2))[family, city.astype(int)] * np.clip((years - 12) / 3, -1.5, 1.5)
    score += 0.4 * effects.choice([-1, 1], 20)[industry] * np.where(children > 1, 1, -1)
    label = random.random(rows) < _sigmoid(1.3 * (score - 0.75))
    names = {"age": age, "education_years": years, "children": children}
    columns = {name: pa.array(values) for name, values in names.items()}
    columns["hours"] = _with_nulls(random, hours, 0.05)
    columns["savings"] = _with_nulls(random, savings, 0.1)
    columns["capital_gain"] = pa.array(gain)
    columns["distance"] = _with_nulls(random, distance, 0.03)
    columns["owner"] = pa.array(owner)
    columns["city"] = pa.array(np.where(city, "city", "country"))
    columns["work"] = _with_nulls(random, _names("work", work), 0.05)
    columns["occupation"] = _with_nulls(random, _names("occupation", occupation), 0.05)
    columns["family"] = pa.array(_names("family", family))
    columns["region"] = pa.array(_names("region", region))
    columns["industry"] = pa.array(_names("industry", industry))
    columns["registered"] = _with_nulls(random, (np.datetime64("2015-01-01") + days).astype("datetime64[D]"), 0.04)
    columns[CENSUS_LABEL] = pa.array(np.where(label, "yes", "no"))
    return pa.table(columns)


def airline(rows: int, seed: int = 1) -> pa.Table:
    """Flights between 300 airports, some of which have many and most have few, at times of two years, and the label
    `delayed` (yes or no, about 12 % yes)."""
    random = np.random.default_rng([2, seed])
    share = 1 / (np.arange(AIRPORTS) + 10)
    share /= share.sum()
    origin, destination = random.choice(AIRPORTS, rows, p=share), random.choice(AIRPORTS, rows, p=share)
    carrier = _category(random, rows, "carrier", 14)
    aircraft = _category(random, rows, "aircraft", 12)
    minute = random.integers(0, 2 * 365 * 24 * 60, rows)
    hour, day = minute / 60 % 24, minute / 60 / 24
    distance = random.gamma(2, 400, rows).round().astype(np.int32)
    wind = random.gamma(2, 8, rows).round(1)
    age = random.gamma(3, 4, rows).round(1)
    seats = random.choice(np.array([70, 120, 150, 180, 220, 300], np.int16), rows)
    connecting = random.random(rows) < 0.3
    effects = np.random.default_rng(12)
    score = effects.normal(0, 0.35, 14)[carrier] + effects.normal(0, 0.35, AIRPORTS)[origin]
    score += 0.3 * (wind - 16) / 11 + 0.15 * (distance - 800) / 560
    # Then: two rush hours, on working days only; seasons that differ by airport; planes that a carrier does not know;
    # and wind, which keeps those on the ground who wait for a connection.
    rush = np.exp(-(((hour - 8) / 2) ** 2)) + np.exp(-(((hour - 18) / 2) ** 2))
    score += 1.3 * rush * np.where((day.astype(int)) % 7 < 5, 1, -1)
    score += 0.8 * np.cos(2 * np.pi * day / 365) * effects.choice([-1.0, 1.0], AIRPORTS)[destination]
    score += 1.1 * effects.choice([-1, 1], (14, 12))[carrier, aircraft]
    score += 0.8 * np.tanh((wind - 16) / 6) * np.where(connecting, 1, -1)
    label = random.random(rows) < _sigmoid(1.3 * score - 3.5)
    return pa.table(
        {
            "carrier": pa.array(_names("carrier", carrier)),
            "aircraft": _with_nulls(random, _names("aircraft", aircraft), 0.03),
            "origin": pa.array(_names("airport", origin)),
            "destination": pa.array(_names("airport", destination)),
            "departure": pa.array(_EPOCH + minute.astype("timedelta64[m]")),
            "distance": pa.array(distance),
            "seats": pa.array(seats),
            "wind": _with_nulls(random, wind, 0.08),
            "plane_age": _with_nulls(random, age, 0.1),
            "connecting": pa.array(connecting),
            AIRLINE_LABEL: pa.array(np.where(label, "yes", "no")),
        }
    )


def texts(rows: int, seed: int = 1, words: int = 1500) -> pa.Table:
    """Messages of 8 to 40 words with one of six topics as the label `topic`: each has words of its own, which others
    have less often, and two of them differ only by which of two words, up to two others apart, comes first."""
    random = np.random.default_rng([3, seed])
    vocabulary = _words(words)
    share = 1 / (np.arange(words) + 5)
    share /= share.sum()
    effects = np.random.default_rng(13)
    own = effects.permutation(np.arange(100, words))[: 80 * 5].reshape(5, 80)
    # The first two topics have the same words of their own.
    group = np.array([0, 0, 1, 2, 3, 4])
    first, second = effects.permutation(np.arange(20, 100))[:20].reshape(2, 10)
    topic = random.integers(0, len(TOPICS), rows)
    found = []
    for label in topic.tolist():
        message = random.choice(words, random.integers(8, 41), p=share)
        for place in np.nonzero(random.random(len(message)) < 0.2)[0]:
            message[place] = random.choice(own[group[label]])
        if group[label] == 0:
            pair, apart = random.integers(0, 10), random.integers(1, 4)
            at = random.integers(0, len(message) - apart)
            order = (first[pair], second[pair]) if label % 2 else (second[pair], first[pair])
            message[at], message[at + apart] = order
        text = " ".join(vocabulary[word] for word in message)
        found.append(text[0].upper() + text[1:] + random.choice([".", "!", "...", ""]))
    return pa.table({"message": found, TEXTS_LABEL: [TOPICS[label] for label in topic]})


def series(hours: int, stations: int = 4, seed: int = 1, start: datetime = datetime(2024, 1, 1)) -> pa.Table:
    """One row for each station and hour, in the order of time: `station`, `time`, `weekday` (Monday 0), `load`,
    `temperature`.

    The load has a shape over the day that differs by station and between working days and weekends, grows with heat and
    with cold, and wanders.
    """
    random = np.random.default_rng([4, seed])
    hour = np.arange(hours)
    weekday = ((hour // 24 + start.weekday()) % 7).astype(np.int8)
    weekend = weekday >= 5
    columns: dict[str, list[Any]] = {"station": [], "load": [], "temperature": []}
    for station in range(stations):
        wave = np.sin(2 * np.pi * hour / (24 * 365) - 1.8) * 11 + np.sin(2 * np.pi * (hour % 24 - 9) / 24) * 4
        temperature = 12 + wave + _wandering(random, hours, 0.98, 0.7)
        peak = 8 + 3 * station
        day = np.exp(2 * np.cos(2 * np.pi * (hour % 24 - peak) / 24)) / 4
        flat = np.exp(np.cos(2 * np.pi * (hour % 24 - 13) / 24)) / 3
        load = 40 + 25 * np.where(weekend, flat, day) + 0.08 * (temperature - 16) ** 2
        load = (1 + 0.4 * station) * (load + _wandering(random, hours, 0.9, 1.5))
        columns["station"].append(np.full(hours, f"station {station}"))
        columns["load"].append(load.round(2))
        columns["temperature"].append(temperature.round(1))
    time = np.datetime64(start, "us") + hour.astype("timedelta64[h]")
    # Station by station became hour by hour.
    flat_columns = {name: np.stack(values, axis=1).reshape(-1) for name, values in columns.items()}
    by_hour = {"time": np.repeat(time, stations), "weekday": np.repeat(weekday, stations)}
    return pa.table({"station": flat_columns.pop("station"), **by_hour, **flat_columns})


def image_folders(folder: Path, images: int, seed: int = 1, side: int = 28) -> None:
    """Grey PNG files in folder/CLASS/: a circle, a cross, a frame or stripes, of any size, place and brightness, with
    noise. `images` of each class."""
    from PIL import Image

    random = np.random.default_rng([5, seed])
    rows, columns = np.mgrid[:side, :side]
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True)
        for number in range(images):
            radius = random.uniform(0.2, 0.4) * side
            centre = random.uniform(radius, side - radius, 2)
            down, right = np.abs(rows - centre[0]), np.abs(columns - centre[1])
            largest = np.maximum(down, right)
            drawn = {
                "circle": np.abs(np.hypot(down, right) - radius + 1) < 1.5,
                "cross": (largest < radius) & (np.minimum(down, right) < 1.5),
                "frame": (largest < radius) & (largest > radius - 3),
                "stripes": (largest < radius) & (rows % 4 < 2),
            }[shape]
            pixels = random.uniform(0, 90, (side, side)) + random.uniform(60, 160) * drawn
            Image.fromarray(pixels.astype(np.uint8)).save(folder / shape / f"{number:05d}.png")


def _category(random: np.random.Generator, rows: int, name: str, size: int) -> Any:
    """int64 [rows] below `size`, the first ones more often; the shares depend on the name alone."""
    share = np.random.default_rng(sum(name.encode())).dirichlet(np.full(size, 3.0))
    return random.choice(size, rows, p=share)


def _names(name: str, index: Any) -> Any:
    """[rows] texts, such as `work 3`."""
    return np.char.add(f"{name} ", index.astype(str))


def _with_nulls(random: np.random.Generator, values: Any, share: float) -> pa.Array:
    """The values, each null with this probability."""
    return pa.array(values, mask=random.random(len(values)) < share)


def _words(count: int) -> Sequence[str]:
    """Different words of four to nine letters."""
    random = np.random.default_rng(14)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u")]
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(random.choice(syllables, random.integers(2, 5)))] = None
    return list(found)


def _wandering(random: np.random.Generator, length: int, memory: float, noise: float) -> Any:
    """float64 [length]: each value `memory` times the one before, and noise of this standard deviation."""
    steps, found, value = random.normal(0, noise, length), np.empty(length), 0.0
    for place, step in enumerate(steps):
        value = memory * value + step
        found[place] = value
    return found


def _sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))
