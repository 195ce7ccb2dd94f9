"""Ours of benchmarks/tables.py without Spark: the models of models/, as conf/ says, in Keras's own loop.

Each function gives the measure on the test rows. config: what a train-*.yaml holds; of it `model`, `optimizer`,
`batch_size`, `epochs` and `seed` count. Features are made as `preprocess` makes them by default, in NumPy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import tables_theirs

TEXT_LENGTH = 64
WORD = re.compile(r"\w+|[^\w\s]")


def table(train: pa.Table, test: pa.Table, label: str, config: Mapping[str, Any]) -> float:
    """The area under the ROC curve."""
    split = len(train)
    numbers, texts = tables_theirs.columns(pa.concat_tables([train, test]).drop_columns([label]))
    inputs = {"numbers": tables_theirs.standardised(numbers, split).astype(np.float32)}
    categories = {}
    for name, column in texts.items():
        inputs[name], categories[name] = tables_theirs.indices(column, split)
    yes = [np.array(rows[label].to_pylist()) == "yes" for rows in (train, test)]
    outputs = _trained(config, inputs, categories, yes[0].astype(np.int64), ("no", "yes"))
    return area_under_curve(yes[1], outputs[:, 1])


def texts(train: pa.Table, test: pa.Table, column: str, label: str, config: Mapping[str, Any]) -> float:
    """Accuracy."""
    split = len(train)
    words = [WORD.findall(text.lower()) for rows in (train, test) for text in rows[column].to_pylist()]
    counts = Counter(word for found in words[:split] for word in found)
    known = {word: place for place, (word, count) in enumerate(counts.most_common(), 2) if count > 1}
    tokens = np.zeros((len(words), TEXT_LENGTH), np.int32)
    for row, found in zip(tokens, words, strict=True):
        row[: len(found)] = [known.get(word, 1) for word in found[:TEXT_LENGTH]]
    return _classes(
        config, {column: tokens}, {column: len(known) + 2}, [rows[label].to_pylist() for rows in (train, test)]
    )


def images(train: Path, test: Path, config: Mapping[str, Any]) -> float:
    """Accuracy."""
    found = [tables_theirs.pixels(folder) for folder in (train, test)]
    side = round(found[0][0].shape[1] ** 0.5)
    x = np.concatenate([pixels for pixels, _ in found]).reshape(-1, side, side, 1).astype(np.float32) / 255
    return _classes(config, {"x": x}, {}, [labels for _, labels in found])


def windows(train: Any, test: Any, config: Mapping[str, Any]) -> float:
    """The mean absolute error. Features and labels have mean 0 and standard deviation 1 in training."""
    offset, scale = train[0].mean(axis=(0, 1)), train[0].std(axis=(0, 1))
    x = (np.concatenate([train[0], test[0]]) - offset) / scale
    middle, spread = train[1].mean(), train[1].std()
    outputs = _trained(config, {"x": x.astype(np.float32)}, {}, (train[1] - middle) / spread, None)
    return float(np.abs(outputs * spread + middle - test[1]).mean())


def area_under_curve(yes: Any, scores: Any) -> float:
    """Of the ROC. yes: bool [rows], scores: float [rows]."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(yes, scores))


def _classes(config: Mapping[str, Any], inputs: Mapping[str, Any], categories: Mapping[str, int], labels: Any) -> float:
    """Accuracy. labels: the texts of the training and of the test rows."""
    names = tuple(sorted(set(labels[0])))
    indices = [np.array([names.index(text) for text in texts]) for texts in labels]
    return float((_trained(config, inputs, categories, indices[0], names).argmax(axis=1) == indices[1]).mean())


def _trained(
    config: Mapping[str, Any],
    inputs: Mapping[str, Any],
    categories: Mapping[str, int],
    labels: Any,
    classes: tuple[str, ...] | None,
) -> Any:
    """The outputs of the rows behind the labelled ones, by a model trained on these. inputs: [rows, ...] by name."""
    import keras

    from sparksplit.model.builders import load_builder
    from sparksplit.model.description import DataDescription

    keras.utils.set_random_seed(config["seed"])
    split = len(labels)
    shapes = {name: values.shape[1:] for name, values in inputs.items()}
    data = DataDescription(shapes, classes, labels.shape[1:], split, dict(categories))
    model = load_builder(config["model"]["build"], None)(data, **config["model"].get("params", {}))
    optimizer = dict(config["optimizer"])
    loss = "mean_squared_error" if classes is None else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.get({"class_name": optimizer.pop("name"), "config": optimizer}), loss)
    parts = [{name: values[part] for name, values in inputs.items()} for part in (slice(split), slice(split, None))]
    first, second = [part if len(part) > 1 else next(iter(part.values())) for part in parts]
    model.fit(first, labels, config["batch_size"], config["epochs"], verbose=0)
    return model.predict(second, 4096, verbose=0)
