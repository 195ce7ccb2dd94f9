"""The names of raw columns in the exported model's signature, which takes fewer characters than tables do."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from sparksplit.dataset.feature_spec import NUMBERS, Feature, categories


def serving_name(column: str) -> str:
    """What a raw column is called in the signature: all but ASCII letters, digits and _ become _, and what then begins
    with no letter, or is a word of Python's, gets `arg_` in front, as TensorFlow has it (sanitize_arg_name)."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", column)
    plain = name[:1].isalpha() and not keyword.iskeyword(name) and name != "self"
    return name if plain else f"arg_{name}"


def serving_names(features: Sequence[Feature]) -> dict[str, str]:
    """`serving_name` of every feature's column, in their order.

    Raises ValueError where two have the same one (TensorFlow does not tell upper case from lower), and where a column
    that is an input of indices has the name of the input of all numbers, or one that Keras does not take.
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
