"""Keys that were added to a stored object or a configuration after its first version."""

from __future__ import annotations

from typing import Any, ClassVar

import pydantic


class LaterKeys(pydantic.BaseModel):
    """Leaves out keys at their defaults when it is written.

    So files, hashes and digests from before these keys stay the same, and older versions read newer files.
    """

    later: ClassVar[tuple[str, ...]] = ()
    """The keys."""

    @pydantic.model_serializer(mode="wrap")
    def _without_later(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        fields = type(self).model_fields
        defaults = {key: fields[key].get_default(call_default_factory=True) for key in self.later if key in fields}
        return {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}
