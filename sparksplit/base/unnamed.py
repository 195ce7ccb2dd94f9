"""Files without a name, in memory: the kernel's memfds."""

from __future__ import annotations

import ctypes
import os
import platform

_CLOEXEC, _ALLOW_SEALING = 1, 2
_NUMBERS = {"x86_64": 319, "aarch64": 279}


def unnamed(name: str, sealable: bool = False) -> int:
    """Return the descriptor of a new empty memfd. Raise OSError if the kernel refuses.

    name: shown in /proc. sealable: whether it may be sealed. Python has `os.memfd_create` only if it was built for a
    glibc of 2018 or later. The Pythons of conda and uv were not.
    """
    flags = _CLOEXEC | (_ALLOW_SEALING if sealable else 0)
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    # On an unknown machine, -1 is no system call, so the kernel returns an error.
    number = ctypes.c_long(_NUMBERS.get(platform.machine(), -1))
    descriptor = int(ctypes.CDLL(None, use_errno=True).syscall(number, name.encode(), ctypes.c_uint(flags)))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
