"""What a user would run instead on the data of benchmarks/tables.py: scikit-learn's linear models and boosting.

Each function gives the measure on the test rows by contender, `linear` and `boosting`, from the same training and test
rows that sparksplit gets. Columns become what each model wants as scikit-learn's documentation recommends: the linear
model gets numbers standardised, with gaps at their mean, and categories one-hot; boosting gets numbers with their gaps,
and categories as categories, of which it takes 255 at most (the rarest become one).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_CATEGORIES = 250
PARTS = (("M", 12), ("D", 7), ("h", 24))
"""Of a date, with how many values each repeats; hours of a moment alone."""


def table(train: pa.Table, test: pa.Table, label: str) -> dict[str, float]:
    """The area under the ROC curve, for a label that is yes or no."""
    from sklearn.metrics import roc_auc_score

    split = len(train)
    numbers, texts = columns(pa.concat_tables([train, test]).drop_columns([label]))
    yes = [np.array(rows[label].to_pylist()) == "yes" for rows in (train, test)]
    found = {}
    for name, features, model in (
        ("linear", *_linear(numbers, texts, split)),
        ("boosting", *_boosting(numbers, texts, split)),
    ):
        model.fit(features[:split], yes[0])
        found[name] = float(roc_auc_score(yes[1], model.predict_proba(features[split:])[:, 1]))
    return found


def texts(train: pa.Table, test: pa.Table, column: str, label: str) -> dict[str, float]:
    """Accuracy. Linear: words and pairs of words by TF-IDF; boosting: those reduced to 50 numbers."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2)
    features = [
        vectors.fit_transform(train[column].to_pylist()),
        vectors.transform(test[column].to_pylist()),
    ]
    reduced = TruncatedSVD(50, random_state=1)
    dense = [reduced.fit_transform(features[0]), reduced.transform(features[1])]
    labels = [rows[label].to_pylist() for rows in (train, test)]
    linear = LogisticRegression(C=10.0, max_iter=1000).fit(features[0], labels[0])
    boosting = HistGradientBoostingClassifier(random_state=1).fit(dense[0], labels[0])
    return {
        "linear": float(linear.score(features[1], labels[1])),
        "boosting": float(boosting.score(dense[1], labels[1])),
    }


def windows(train: Any, test: Any) -> dict[str, float]:
    """The mean absolute error of what follows windows over time. Linear: Ridge; boosting: a model for every fourth hour
    ahead, since one takes as long as everything else, and the mean of their errors.

    train, test: (float [rows, window, features], float [rows, horizon]).
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    seen, unseen = (given.reshape(len(given), -1) for given, _ in (train, test))
    offset, scale = seen.mean(axis=0), seen.std(axis=0)
    linear = Ridge(1.0).fit((seen - offset) / scale, train[1]).predict((unseen - offset) / scale)
    errors = []
    for ahead in range(2, train[1].shape[1], 4):
        model = HistGradientBoostingRegressor(random_state=1).fit(seen, train[1][:, ahead])
        errors.append(np.abs(model.predict(unseen) - test[1][:, ahead]).mean())
    return {"linear": float(np.abs(linear - test[1]).mean()), "boosting": float(np.mean(errors))}


def images(train: Path, test: Path) -> dict[str, float]:
    """Accuracy on folders of images, their pixels as numbers."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    seen, labels = pixels(train)
    unseen, wanted = pixels(test)
    linear = LogisticRegression(max_iter=300).fit(seen / 255, labels)
    boosting = HistGradientBoostingClassifier(random_state=1).fit(seen, labels)
    return {
        "linear": float(linear.score(unseen / 255, wanted)),
        "boosting": float(boosting.score(unseen, wanted)),
    }


def windows_of(rows: pa.Table, by: str, values: list[str], label: str, window: int, horizon: int, stride: int) -> Any:
    """(float64 [rows, window, values], float64 [rows, horizon]): of each `by`, `values` over time and what `label` is
    after them, every `stride`-th."""
    given, wanted = [], []
    for key in pc.unique(rows[by]).to_pylist():
        own = rows.filter(pc.equal(rows[by], key))
        series = np.stack([own[name].to_numpy() for name in values], axis=1)
        ahead = own[label].to_numpy()
        for start in range(0, len(own) - window - horizon + 1, stride):
            given.append(series[start : start + window])
            wanted.append(ahead[start + window : start + window + horizon])
    return np.stack(given), np.stack(wanted)


def columns(rows: pa.Table) -> tuple[Any, Mapping[str, Any]]:
    """(float64 [rows, numbers] with NaN where one is missing, texts [rows] by column, empty where one is missing).

    Dates become sine and cosine of their parts, and whether they are missing.
    """
    numbers: list[Any] = []
    texts: dict[str, Any] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_temporal(column.type):
            numbers.extend(_date(column))
        elif pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
            texts[name] = np.array(pc.fill_null(column.cast(pa.string()), "").to_pylist())
        else:
            numbers.append(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy())
    return np.stack(numbers, axis=1), texts


def standardised(numbers: Any, split: int) -> Any:
    """float64 [rows, numbers]: mean 0 and standard deviation 1 over the first `split` rows, what is missing as 0."""
    offset, scale = np.nanmean(numbers[:split], axis=0), np.nanstd(numbers[:split], axis=0)
    return np.nan_to_num((numbers - offset) / np.where(scale > 0, scale, 1))


def indices(texts: Any, split: int) -> tuple[Any, int]:
    """(int32 [rows], how many there are): 0 missing, 1 not among the first `split` rows, then those that are."""
    known = {text: place for place, text in enumerate(sorted(set(texts[:split]) - {""}), 2)}
    return np.array([known.get(text, int(bool(text))) for text in texts], np.int32), len(known) + 2


def pixels(folder: Path) -> tuple[Any, list[str]]:
    """(uint8 [rows, pixels], classes [rows]) of folders of images."""
    from PIL import Image

    files = sorted(folder.glob("*/*.png"))
    return np.stack([np.asarray(Image.open(file)).reshape(-1) for file in files]), [file.parent.name for file in files]


def _linear(numbers: Any, texts: Mapping[str, Any], split: int) -> tuple[Any, Any]:
    from scipy.sparse import hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    categories = np.stack(list(texts.values()), axis=1)
    one_hot = OneHotEncoder(handle_unknown="ignore").fit(categories[:split]).transform(categories)
    return hstack([standardised(numbers, split), one_hot]).tocsr(), LogisticRegression(max_iter=1000)


def _boosting(numbers: Any, texts: Mapping[str, Any], split: int) -> tuple[Any, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.preprocessing import OrdinalEncoder

    categories = np.stack(list(texts.values()), axis=1)
    encoder = OrdinalEncoder(
        max_categories=MOST_CATEGORIES, handle_unknown="use_encoded_value", unknown_value=np.nan
    ).fit(categories[:split])
    places = range(numbers.shape[1], numbers.shape[1] + len(texts))
    model = HistGradientBoostingClassifier(categorical_features=list(places), random_state=1)
    return np.hstack([numbers, encoder.transform(categories)]), model


def _date(column: Any) -> list[Any]:
    moments = pc.fill_null(column.cast(pa.timestamp("us")), 0).to_numpy().astype("datetime64[us]")
    missing = pc.is_null(column).to_numpy()
    found = []
    for unit, period in PARTS if pa.types.is_timestamp(column.type) else PARTS[:2]:
        turn = 2 * np.pi * (moments.astype(f"datetime64[{unit}]").astype(np.int64) % period) / period
        found += [np.where(missing, 0, function(turn)) for function in (np.sin, np.cos)]
    return [*found, missing.astype(np.float64)]
