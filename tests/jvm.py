"""Stand-ins for Spark's JVM, behind py4j's own client: one that answers, and one that stands still."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty
from py4j.protocol import get_return_value

DONE = b"!yv\n"


def gateway() -> Any:
    """A gateway to no JVM, for code that only sets limits."""
    parameters = SimpleNamespace(read_timeout=None)
    client = SimpleNamespace(
        java_parameters=parameters, get_thread_connection=lambda: None, _create_new_connection=None
    )
    return SimpleNamespace(_gateway_client=client)


class Context:
    """A SparkContext whose every method is one call into the JVM."""

    def __init__(self, client: JavaClient) -> None:
        self._gateway = SimpleNamespace(_gateway_client=client)

    @property
    def _jsc(self) -> Any:
        return SimpleNamespace(sc=self._call)

    def __getattr__(self, name: str) -> Any:
        return self._call

    def _call(self, *_: Any, what: str = "call", **__: Any) -> Any:
        client = self._gateway._gateway_client
        return get_return_value(client.send_command(f"{what}\n"), client, None, what)


@contextmanager
def jvm(answers: int = 10**9, silent: Callable[[], None] = lambda: None) -> Iterator[Context]:
    """A context whose JVM gives so many answers (a new connection asks for one, too), and then stands still.

    Of what takes it longer, `slow`, it answers after half a second.

    silent: called, in another thread, for whatever the JVM gets then.
    """
    left = [answers]

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while asked := connection.recv(1000):
                left[0] -= 1
                if left[0] >= 0:
                    time.sleep(0.5 if asked == b"slow\n" else 0)
                    connection.sendall(DONE)
                else:
                    silent()

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(listener.accept()[0])
                threads.append(threading.Thread(target=serve, args=[connections[-1]], daemon=True))
                threads[-1].start()

    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        parameters = JavaParameters(port=listener.getsockname()[1], auth_token="secret")
        client = JavaClient(parameters, PythonParameters(), GatewayProperty(True, None), deque())
        yield Context(client)
        client.close()
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for connection in connections:
        with suppress(OSError):  # its thread has closed it
            connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
