"""What every call of sparksplit in Python does around its work."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sparksplit.base.errors import NodeFailed, UsageError
from sparksplit.spark.session import satisfy_yarn

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OPTION = re.compile(r"--(overwrite|resume|restart)\b")


def api_call(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `call` as a function of Python's users.

    It also starts Spark in YARN's cluster mode, if `call` did not need Spark. Errors of users and of nodes name
    arguments of Python, and have no traceback within sparksplit.
    """

    @functools.wraps(call)
    def called(*args: _P.args, **keys: _P.kwargs) -> _R:
        try:
            result = call(*args, **keys)
        except (UsageError, NodeFailed) as error:
            error.args = (in_python(str(error)),)
            # The line says it all. Only the user's own frames are left, and a cause such as an error in his builder.
            raise error.with_traceback(None) from error.__cause__
        satisfy_yarn()
        return result

    return called


def in_python(message: str) -> str:
    """Return an error's line with Python's arguments, such as `overwrite=True` for `--overwrite`."""
    return _OPTION.sub(r"\1=True", message)
