"""Files without a name, in memory: the kernel's memfds."""

from __future__ import annotations

import ctypes
import os
import platform

_CLOEXEC, _ALLOW_SEALING = 1, 2
_NUMBERS = {"x86_64": 319, "aarch64": 279}


def unnamed(name: str, sealable: bool = False) -> int:
    """The descriptor of an empty one. name: what /proc shows. sealable: whether it may be sealed. Raises OSError.

    Python has a name for the call only if it was built for a glibc of 2018 or later, which conda's and uv's were not.
    """
    flags = _CLOEXEC | (_ALLOW_SEALING if sealable else 0)
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    # -1 is no call of any kernel, which it says.
    number = ctypes.c_long(_NUMBERS.get(platform.machine(), -1))
    descriptor = int(ctypes.CDLL(None, use_errno=True).syscall(number, name.encode(), ctypes.c_uint(flags)))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
