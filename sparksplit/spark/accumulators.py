"""pyspark's server for accumulators, with a thread for each caller.

Its own serves one caller at a time. Any user of the machine could connect, send nothing, and hold up Spark's next job.
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
from typing import Any

from pyspark import accumulators

PROOF_SECONDS = 60.0
"""How long a caller may take to send the token. Spark's JVM sends it at once, if it does not collect garbage."""


@contextmanager
def guarded() -> Iterator[None]:
    """Sessions that start in this block get a server that strangers do not hold up."""
    before = accumulators.AccumulatorServer
    accumulators.AccumulatorServer = _Server  # type: ignore[misc]
    try:
        yield
    finally:
        accumulators.AccumulatorServer = before  # type: ignore[misc]


class _Server(socketserver.ThreadingMixIn, accumulators.AccumulatorServer):
    daemon_threads = True
    block_on_close = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a caller who sends the token in time. Runs in the caller's own thread."""
        token = self.auth_token.encode()
        request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(PROOF_SECONDS))
        # Not taken from the connection: pyspark's handler reads the token, too.
        sent = request.recv(len(token), socket.MSG_PEEK | socket.MSG_WAITALL)
        if not hmac.compare_digest(sent, token):
            raise PermissionError("the token is not this session's")
        request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _time(0.0))
        super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # pyspark would print a traceback for every stranger, and for Spark's own end. Else a user's accumulator failed.
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError | EOFError) else logging.ERROR
        logging.getLogger(__name__).log(level, "at the accumulators' port: %s", client_address, exc_info=True)


def _time(seconds: float) -> bytes:
    """A `struct timeval`."""
    return struct.pack("@ll", int(seconds), round(seconds % 1 * 1e6))
