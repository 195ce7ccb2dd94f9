"""Names of raw columns in the exported model's signature, which allows fewer characters than tables do."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from sparksplit.dataset.feature_spec import NUMBERS, Feature, categories


def serving_name(column: str) -> str:
    """Return the name of a raw column in the signature, as TensorFlow's sanitize_arg_name makes it.

    All characters except ASCII letters, digits and _ become _. The name gets `arg_` in front if it does not begin with
    a letter, or is a Python keyword or `self`.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", column)
    plain = name[:1].isalpha() and not keyword.iskeyword(name) and name != "self"
    return name if plain else f"arg_{name}"


def serving_names(features: Sequence[Feature]) -> dict[str, str]:
    """Return `serving_name` of every feature's column, in order.

    Raise ValueError if two names are equal (TensorFlow ignores upper and lower case). Raise ValueError if a column that
    is an input of indices is called NUMBERS, or has a name that Keras does not take.
    """
    names: dict[str, str] = {}
    taken: dict[str, str] = {}
    for feature in features:
        name = serving_name(feature.column)
        other = taken.setdefault(name.lower(), feature.column)
        if other != feature.column or feature.column in names:
            raise ValueError(
                f"columns {other!r} and {feature.column!r} would both be {name!r} in the exported model: rename one"
            )
        names[feature.column] = name
    indices = categories(list(features))
    for column in indices:
        if "/" in column:
            raise ValueError(f"column {column!r}: Keras does not allow / in the name of an input; rename the column")
    if NUMBERS in indices:
        raise ValueError(f"column {NUMBERS!r}: the model uses this name for all numbers together; rename the column")
    return names
