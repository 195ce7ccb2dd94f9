"""Connections under TLS 1.3. Certificates are made for one run and are identified by their fingerprints.

The caller knows the expected certificate's fingerprint. There is no certificate authority, and the names in a
certificate are ignored. Whether the caller may connect is decided later, by a proof that it knows the run's secret.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sparksplit.base.unnamed import unnamed
from sparksplit.network.certificate import for_host

_RECORD = 16 << 10
_DONE = TypeVar("_DONE")


class Served:
    """The certificate of a listening process. fingerprint: callers need it to check the certificate."""

    def __init__(self, host: str) -> None:
        certificate, key = for_host(host)
        self.fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).hexdigest()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Nobody resumes a session. Tickets that a caller has not read when it closes would reset the connection.
        self._context.num_tickets = 0
        # OpenSSL reads only files, so use a file in memory.
        held = unnamed("certificate")
        try:
            os.write(held, certificate + key)
            self._context.load_cert_chain(f"/proc/self/fd/{held}")
        finally:
            os.close(held)

    def wrap(self, connection: socket.socket) -> Encrypted:
        """Return the server's end of an accepted connection. Call `greet` next."""
        return Encrypted(self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False))


def wrap_call(connection: socket.socket, fingerprint: str) -> Encrypted:
    """Return the caller's end of a connection to the owner of the certificate with `fingerprint`. Call `greet` next."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # compared in `greet`
    return Encrypted(context.wrap_socket(connection, do_handshake_on_connect=False), fingerprint)


class Encrypted:
    """A TLS connection with the socket methods that are used here. Thread-safe.

    OpenSSL allows one thread at a time, so no thread waits inside it: the socket underneath does not block. With
    `setblocking(False)`, a call that would wait raises BlockingIOError. Call again once `poll` reports the descriptor.
    """

    def __init__(self, connection: ssl.SSLSocket, fingerprint: str | None = None) -> None:
        self._timeout = connection.gettimeout()
        connection.setblocking(False)
        self._tls, self._fingerprint = connection, fingerprint
        self._lock = threading.Lock()
        self._closed = False

    def greet(self) -> None:
        """Agree on keys. Raise ConnectionError if the other end has another certificate."""
        self._waiting(self._tls.do_handshake)
        fingerprint = hashlib.sha256(self._tls.getpeercert(binary_form=True) or b"").hexdigest()
        if self._fingerprint is not None and not hmac.compare_digest(fingerprint, self._fingerprint):
            raise ConnectionError("its certificate is not the one that was announced")

    def recv(self, most: int) -> bytes:
        return self._waiting(lambda: self._tls.recv(most))

    def sendall(self, data: bytes) -> None:
        view, deadline = memoryview(data), self._deadline()
        while view:
            view = view[self._waiting(partial(self._tls.send, view), deadline) :]

    def send(self, data: bytes) -> int:
        return self._waiting(lambda: self._tls.send(data))

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:
        """Send the beginning of `buffers`, about one TLS record. Pass the rest again in the next call."""
        piece: bytes | memoryview = buffers[0][:_RECORD]
        if len(piece) < _RECORD and len(buffers) > 1:
            parts, room = [], _RECORD
            for buffer in buffers:
                parts.append(buffer[:room])
                room -= len(parts[-1])
                if room <= 0:
                    break
            piece = b"".join(parts)
        return self._waiting(lambda: self._tls.send(piece))

    def recvmsg_into(self, buffers: Sequence[memoryview]) -> tuple[int]:
        """Receive into the first of `buffers`."""
        return (self._waiting(lambda: self._tls.recv_into(buffers[0])),)

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def setblocking(self, flag: bool) -> None:
        self._timeout = None if flag else 0.0

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._tls.setsockopt(level, option, value)

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self._tls.getsockname()
        return name

    def fileno(self) -> int:
        return self._tls.fileno()

    def shutdown(self, how: int) -> None:
        # Shut down the connection, not TLS: SSLSocket.shutdown would make this object read on without TLS.
        socket.socket.shutdown(self._tls, how)

    def close(self) -> None:
        with self._lock:
            self._closed = True  # OpenSSL must not use the descriptor again: it may soon be another connection's
            self._tls.close()

    def _deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _waiting(self, step: Callable[[], _DONE], deadline: float | None = None) -> _DONE:
        """Return the result of `step` as soon as it is ready. Raise TimeoutError; without blocking, BlockingIOError."""
        if deadline is None:
            deadline = self._deadline()
        while True:
            try:
                with self._lock:
                    if self._closed:
                        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                    number = self._tls.fileno()  # if it is closed meanwhile, `poll` reports that
                    return step()
            except ssl.SSLWantReadError:
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
            if self._timeout == 0.0:
                raise BlockingIOError
            poll = select.poll()
            poll.register(number, event)
            left = None if deadline is None else deadline - time.monotonic()
            if (left is not None and left <= 0) or not poll.poll(None if left is None else 1000 * left):
                raise TimeoutError("timed out")


Connection = socket.socket | Encrypted
"""A connection, encrypted or not."""
