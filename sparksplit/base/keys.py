"""Properties of a configuration key besides its type: a mark on the field, in `Annotated`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pydantic


@dataclass(frozen=True)
class Mark:
    """The rules for one key. A field without a mark has the defaults."""

    hashed: bool = True
    """Whether the key enters the config hash. A path does not: only the content of its files does."""
    safe: bool = False
    """Whether `diagnose` may write the key, which does not change the result of the run."""
    timed: bool = False
    """Whether the key changes how long a run takes, although the result may be the same. `compare` makes a run again if
    one of these keys has changed."""
    users: tuple[str, ...] = ()
    """The formats, groups of formats, kinds of features or rules of the cut that use the key. Empty: all of them."""
    shared: bool = False
    """Whether all strategies of a comparison have the same value."""
    within: bool = False
    """Whether `compare` takes the key only within one of its `strategies`."""
    refused: str = ""
    """Why no run of a comparison has the key. Empty: a run may have the key."""


SAFE = Mark(hashed=False, safe=True)
SAFE_SHARED = Mark(hashed=False, safe=True, shared=True)
SAFE_TIMED = Mark(hashed=False, safe=True, timed=True)
SAFE_TIMED_SHARED = Mark(hashed=False, safe=True, timed=True, shared=True)


def used_by(*users: str) -> Mark:
    """Return the mark of a key that only `users` use; see `Mark.users`."""
    return Mark(users=users)


def mark_of(model: type[pydantic.BaseModel], key: str) -> Mark:
    """Return the mark of the key `key` of `model`."""
    return next((mark for mark in model.model_fields[key].metadata if isinstance(mark, Mark)), Mark())


def keys_of(model: type[pydantic.BaseModel], which: Callable[[Mark], object]) -> list[str]:
    """Return the keys of `model` whose mark satisfies `which`, in the order of declaration."""
    return [key for key in model.model_fields if which(mark_of(model, key))]


def unhashed(model: type[pydantic.BaseModel]) -> set[str]:
    """Return the keys of `model` that are not part of the config hash."""
    return set(keys_of(model, lambda mark: not mark.hashed))


def listed(what: str, names: Sequence[str]) -> str:
    """Return `names` in words, after `what` they are: `format csv`, or `formats csv, json and orc`."""
    return f"{what} {names[0]}" if len(names) == 1 else f"{what}s {', '.join(names[:-1])} and {names[-1]}"
