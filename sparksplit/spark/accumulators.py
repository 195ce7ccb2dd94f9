"""pyspark's server for accumulators, with one thread for each caller.

pyspark's own server handles one caller at a time. Any user of the machine could connect, send nothing, and block
Spark's next job.
"""

from __future__ import annotations

import hmac
import logging
import socket
import socketserver
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import accumulators

NAME = "AccumulatorTCPServer" if hasattr(accumulators, "AccumulatorTCPServer") else "AccumulatorServer"
"""The server's name in pyspark 4 and in pyspark 3."""
if TYPE_CHECKING:
    from pyspark.accumulators import AccumulatorServer as _Plain
else:
    _Plain = getattr(accumulators, NAME)

PROOF_SECONDS = 60.0
"""Seconds for a caller to send the token. Spark's JVM sends it at once, unless it is collecting garbage."""


@contextmanager
def guarded() -> Iterator[None]:
    """Give sessions that start in this block a server that strangers cannot block."""
    setattr(accumulators, NAME, _Server)
    try:
        yield
    finally:
        setattr(accumulators, NAME, _Plain)


class _Server(socketserver.ThreadingMixIn, _Plain):
    daemon_threads = True
    block_on_close = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a caller that sends the token in time. Runs in the caller's own thread."""
        token = self.auth_token.encode()
        request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(PROOF_SECONDS))
        # Peek only, because pyspark's handler reads the token too.
        sent = request.recv(len(token), socket.MSG_PEEK | socket.MSG_WAITALL)
        if not hmac.compare_digest(sent, token):
            raise PermissionError("the token is not this session's")
        request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(0.0))
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # pyspark would print a traceback for every stranger, and when Spark ends. Other errors: an accumulator failed.
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError | EOFError) else logging.ERROR
        logging.getLogger(__name__).log(level, "at the accumulators' port: %s", client_address, exc_info=True)


def _time(seconds: float) -> bytes:
    """Return a `struct timeval`."""
    return struct.pack("@ll", int(seconds), round(seconds % 1 * 1e6))
