"""On a node: takes in what Spark's tasks send, and spools it to the local disk. Arrow Flight (DoPut, bearer token)."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from hdfs_io import row_ids
from hdfs_io.lane_files import ROW_ID
from sparksplit.errors import RunError
from training.handoff.sender import Sent


def token_of(secret: bytes) -> str:
    """The bearer token of a run's hand-off: of the run's secret, but not the secret itself."""
    return hmac.digest(secret, b"hand-off", "sha256").hex()


class Receiver:
    """A Flight server on `host`, this node's own address, that spools the rows of each partition to a file in `folder`.

    The first complete copy of a partition counts; what a repeated task sends again is compared with it and dropped. A
    batch is on the disk before the next one is taken, so memory is bounded by one batch per sender.
    address: (host, port). rows: received so far, repeated ones too.
    """

    def __init__(self, host: str, token: str, folder: str, schema: pa.Schema) -> None:
        self._folder, self._schema = Path(folder), schema
        self._lock = threading.Lock()
        self._complete: dict[int, tuple[Sent, Path]] = {}
        self.rows = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._server = _server(self, f"grpc+tcp://{host}:0", token)
        self.address: tuple[str, int] = (host, self._server.port)
        self._serving = threading.Thread(target=self._server.serve, name="hand-off", daemon=True)
        self._serving.start()

    def arrived(self) -> list[Path]:
        """The files of the partitions that are complete, in the order in which they became so."""
        with self._lock:
            return [path for _, path in self._complete.values()]

    def finish(self, partitions: Sequence[tuple[int, int, int]]) -> list[Path]:
        """Free the port; the files of all partitions, given as (partition, rows, checksum).

        Raises RunError where the rows that are here are not these.
        """
        self.close()
        for number, rows, checksum in partitions:
            found, wanted = self._complete.get(number, (Sent(0, 0), None))[0], Sent(rows, checksum)
            if found != wanted:
                raise RunError(f"the hand-off lost rows: of partition {number} {found} is here, not {wanted}")
        return self.arrived()

    def close(self) -> None:
        """End what is still being received, and free the port; may be called twice."""
        self._server.shutdown()
        self._serving.join()

    def take(self, number: int, attempt: int, reader: Any) -> Sent:
        """Write what `reader` brings of partition `number` to a file; what counts of the partition."""
        if reader.schema != self._schema:
            raise flight.FlightServerError(f"unexpected columns: {reader.schema.names}, not {self._schema.names}")
        path = self._folder / f"{number}-{attempt}.arrow"
        rows = checksum = 0
        try:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self._schema) as writer:
                for chunk in reader:
                    batch = chunk.data
                    writer.write_batch(batch)
                    ids = row_ids.unsigned(batch.column(ROW_ID).to_numpy())
                    rows += len(ids)
                    checksum = (checksum + row_ids.row_checksum(ids)) % 2**64
                    with self._lock:
                        self.rows += len(ids)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        with self._lock:
            counts, kept = self._complete.setdefault(number, (Sent(rows, checksum), path))
        if kept != path:
            path.unlink()
        return counts


def _server(receiver: Receiver, location: str, token: str) -> Any:
    wanted = f"Bearer {token}".encode()

    class Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
        def start_call(self, info: Any, headers: dict[str, list[str]]) -> None:
            found = (headers.get("authorization") or [""])[0]
            if not hmac.compare_digest(found.encode(), wanted):
                raise flight.FlightUnauthenticatedError("the run's token is missing or wrong")

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            number, attempt = map(int, descriptor.command.split())
            sent = receiver.take(number, attempt, reader)
            writer.write(pa.py_buffer(json.dumps({"rows": sent.rows, "checksum": sent.checksum}).encode()))

    return Server(location, middleware={"door": Door()})
