"""Keys that were added later are written only where they say something."""

from __future__ import annotations

from typing import ClassVar

import pydantic

from sparksplit.base.later_keys import LaterKeys


class _First(LaterKeys):
    later: ClassVar[tuple[str, ...]] = ("added",)

    old: int = 0
    added: list[str] = pydantic.Field(default_factory=list)


class _Second(_First):
    later = (*_First.later, "more")

    more: str = "as before"


def test_a_later_key_is_left_out_at_its_default() -> None:
    assert _First().model_dump() == {"old": 0} == _Second().model_dump(mode="json")
    assert _Second(added=["a"], more="new").model_dump() == {"old": 0, "added": ["a"], "more": "new"}
    assert _Second.model_validate_json(_Second(added=["a"]).model_dump_json()) == _Second(added=["a"])
