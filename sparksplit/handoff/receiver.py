"""On a node: receives the rows that Spark's tasks send, and spools them to the local disk. Arrow Flight (DoPut, bearer
token)."""

from __future__ import annotations

import errno
import hmac
import json
import socket
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from hdfs_io import activity
from hdfs_io.errors import using_own
from sparksplit.base import descriptors
from sparksplit.base.errors import RunError, SparksplitError
from sparksplit.dataset import row_ids
from sparksplit.dataset.lane_files import ROW_ID
from sparksplit.handoff.sender import Address, Sent
from sparksplit.network.certificate import for_host
from sparksplit.network.keys import derived
from sparksplit.network.listening import ANY, Network

SPOOL_BATCH = 4 * 1024 * 1024
"""Bytes of a record batch in a spool file. A few large batches are read faster than the many small batches that arrive.
"""


def token_of(secret: bytes) -> str:
    """Return the bearer token of a run's hand-off. It is made from the run's secret, but is not the secret itself."""
    return derived(secret, "hand-off").hex()


_END_LIMIT = 2.0
"""Seconds that closing a receiver waits for running transfers. The end of the process ends the remaining transfers."""


_DESCRIPTORS = 1 << 16
"""File descriptors to ask for. Each partition has a file, and a connection while the partition is received."""


class Receiver:
    """A Flight server on `host`, this node's own address, that spools the rows of each partition to a file in `folder`.

    The first complete copy of a partition counts. The copy of a repeated task is dropped and acknowledged with the
    counts of the first copy, which the sender compares. At most `SPOOL_BATCH` bytes and one batch from each sender wait
    for the disk, so memory is bounded.

    network: which ports to use, and whether to encrypt.
    address: where senders find the server.
    rows: rows received so far, with repeated rows.
    failure: the first error of the disk, such as a full disk; None without an error.
    """

    def __init__(self, host: str, token: str, folder: str, schema: pa.Schema, network: Network = ANY) -> None:
        self._folder, self._schema = Path(folder), schema
        self._lock = threading.Lock()
        self._complete: dict[int, tuple[Sent, Path]] = {}
        self.rows = 0
        self.failure: SparksplitError | None = None
        self._closing = False
        with using_own(folder, "cannot be made"):
            self._folder.mkdir(parents=True, exist_ok=True)
        descriptors.ask(_DESCRIPTORS)
        pair = for_host(host) if network.tls else None
        # The server runs from here on. Do not call its serve(), which only waits for signals and replaces this
        # process's signal handlers. If serve() ends while another server's serve() begins, it may also shut down that
        # server.
        self._server = network.opened(lambda port: _server(self, host, port, token, pair))
        self.address = Address(host, self._server.port, None if pair is None else pair[0].decode())

    def finish(self, partitions: Sequence[tuple[int, int, int]]) -> list[Path]:
        """Free the port. Return the files of all partitions.

        partitions: the expected (partition, rows, checksum).
        Raise RunError if other rows have arrived.
        """
        self.close()
        for number, rows, checksum in partitions:
            arrived, wanted = self._complete.get(number, (Sent(0, 0), None))[0], Sent(rows, checksum)
            if arrived != wanted:
                raise RunError(
                    f"the hand-off lost rows: partition {number} arrived with {arrived}, but must have {wanted}"
                )
        with self._lock:
            return [path for _, path in self._complete.values()]

    def close(self) -> None:
        """Free the port, and stop running transfers at their next batch. May be called twice."""
        self._closing = True
        # shutdown() waits for running transfers, and a Spark task may take long for its next batch.
        ending = threading.Thread(target=self._server.shutdown, name="hand-off-end", daemon=True)
        ending.start()
        ending.join(_END_LIMIT)

    def take(self, number: int, attempt: int, reader: Any) -> Sent:
        """Write the rows of partition `number` from `reader` to a file. Return what to acknowledge."""
        if reader.schema != self._schema:
            raise flight.FlightServerError(f"unexpected columns: {reader.schema.names}, not {self._schema.names}")
        path = self._folder / f"{number}-{attempt}.arrow"
        rows = checksum = 0
        file: _SpoolFile | None = None
        try:
            file = _SpoolFile(path, self._schema)
            for chunk in reader:
                if self._closing:
                    raise flight.FlightCancelledError("this node takes no more rows")
                batch = chunk.data
                file.write(batch)
                activity.note()
                ids = row_ids.unsigned(batch.column(ROW_ID).to_numpy())
                rows += len(ids)
                checksum = (checksum + row_ids.row_checksum(ids)) % 2**64
                with self._lock:
                    self.rows += len(ids)
            file.close()
        except BaseException as error:
            if file is not None:
                file.abort()
            if isinstance(error, SparksplitError):
                self.failure = self.failure or error
                # Flight sends the traceback of any other kind of error.
                raise flight.FlightServerError(str(error)) from None
            raise
        with self._lock:
            counts, kept = self._complete.setdefault(number, (Sent(rows, checksum), path))
        if kept != path:
            with suppress(OSError):  # the node's folder is removed at its end
                path.unlink()
        return counts


class _SpoolFile:
    """An Arrow file that is written batch by batch. Each step raises Passing with the folder's name."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._waiting: list[pa.RecordBatch] = []
        with self._disk():
            self._file = pa.OSFile(str(path), "wb")
            try:
                self._writer = pa.ipc.new_file(self._file, schema)
            except BaseException:
                self._file.close()
                path.unlink()
                raise

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        if sum(part.nbytes for part in self._waiting) >= SPOOL_BATCH:
            self._flush()

    def close(self) -> None:
        self._flush()
        with self._disk():
            self._writer.close()
            self._file.close()

    def abort(self) -> None:
        """Close and delete the file."""
        for part in (self._writer, self._file):
            with suppress(OSError):  # a full disk may have no room for the file's end
                part.close()
        with suppress(OSError):  # such as a disk that has become read-only: report only the first error
            self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            with self._disk():
                self._writer.write_batch(pa.concat_batches(self._waiting))
            self._waiting.clear()

    def _disk(self) -> AbstractContextManager[None]:
        return using_own(str(self._path.parent), "cannot take more rows")


def _server(receiver: Receiver, host: str, port: int, token: str, pair: tuple[bytes, bytes] | None) -> Any:
    wanted = f"Bearer {token}".encode()

    class Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
        def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
            header = (headers.get("authorization") or [""])[0]
            if not hmac.compare_digest(header.encode(), wanted):
                raise flight.FlightUnauthenticatedError("the run's token is missing or wrong")

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            number, attempt = map(int, descriptor.command.split())
            sent = receiver.take(number, attempt, reader)
            writer.write(pa.py_buffer(json.dumps({"rows": sent.rows, "checksum": sent.checksum}).encode()))

    door = {"door": Door()}
    # Bind once to get the system's reason. gRPC gives the same error for all reasons.
    socket.create_server((host, port)).close()
    try:
        if pair is None:
            return Server(f"grpc+tcp://{host}:{port}", middleware=door)
        return Server(f"grpc+tls://{host}:{port}", middleware=door, tls_certificates=[flight.CertKeyPair(*pair)])
    except pa.ArrowException as error:
        raise OSError(errno.EADDRINUSE, str(error)) from None  # the port was taken between the two calls
