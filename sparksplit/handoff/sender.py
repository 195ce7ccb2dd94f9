"""In Spark's tasks: sends the rows of a partition, as Arrow record batches, to the nodes that own their lanes."""

from __future__ import annotations

import base64
import json
import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import flight

from sparksplit.base.errors import PeerLost, RunError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.lane_files import ROW_ID, tensor_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where a node's receiver is. certificate: the certificate to trust (PEM) if the hand-off is encrypted; otherwise
    None."""

    host: str
    port: int
    certificate: str | None = None

    def connect(self) -> Any:
        """Return a Flight client."""
        if self.certificate is None:
            return flight.connect(f"grpc+tcp://{self.host}:{self.port}")
        return flight.connect(f"grpc+tls://{self.host}:{self.port}", tls_root_certs=self.certificate.encode())


@dataclass(frozen=True)
class Sent:
    """The rows that a node has acknowledged: their number, and the ledger's checksum of their row_ids."""

    rows: int
    checksum: int


@dataclass(frozen=True)
class Partition:
    """The rows that the tasks of one partition have handed over.

    number: the partition's number.
    sent: the acknowledged rows, by node.
    lane_rows: number of rows that were read, by lane.
    checksum: checksum of all rows that were read.
    weights: checksum of their weights; 0 if rows have none.
    """

    number: int
    sent: list[Sent]
    lane_rows: list[int]
    checksum: int
    weights: int = 0

    def packed(self) -> PackedPartition:
        """Return this partition in a third of the bytes, and in two objects.

        Without packing, the driver would hold 13 million numbers for 1,000 partitions, 1,000 nodes and 12,000 lanes.
        """
        sent = np.array([(part.rows, part.checksum) for part in self.sent], np.uint64)
        lane_rows = np.array(self.lane_rows, np.int64)
        return PackedPartition(self.number, _packed(sent), _packed(lane_rows), self.checksum, self.weights)


@dataclass(frozen=True)
class PackedPartition:
    """A `Partition` on its way to the driver. sent, lane_rows: packed by `_packed`."""

    number: int
    sent: str
    lane_rows: str
    checksum: int
    weights: int = 0

    def numbers(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """Return (rows and checksum that each node has acknowledged [nodes, 2], rows of each lane [lanes])."""
        return _unpacked(self.sent, np.uint64).reshape(-1, 2), _unpacked(self.lane_rows, np.int64)


def _packed(array: npt.NDArray[Any]) -> str:
    """Return numbers as compressed bytes, in text that JSON can hold."""
    return base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()


def _unpacked(text: str, dtype: Any) -> npt.NDArray[Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)


class Sender:
    """A task for `facts_of`: sends the rows of its partition and yields one `PackedPartition`.

    addresses: the nodes' receivers, by rank.
    token: bearer token of the receivers.
    schema: schema of the sent batches, row_id first.
    lanes: number of lanes of the data set.
    owned: by rank, the lanes whose rows the node gets, as the run's split gives them. Several nodes may own a lane.
    weight: the data set's tensor of row weights, if there is one.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        token: str,
        schema: pa.Schema,
        lanes: int,
        owned: Sequence[Sequence[int]],
        weight: TensorSpec | None = None,
    ) -> None:
        self._weight = weight
        self._addresses, self._token, self._schema, self._lanes = list(addresses), token, schema, lanes
        # Plain lists, because the tasks could not import a user's own class.
        self._owned = [list(map(int, own_lanes)) for own_lanes in owned]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[PackedPartition]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        yield self.send(batches, task.partitionId(), task.taskAttemptId()).packed()

    def send(self, batches: Iterable[pa.RecordBatch], number: int, attempt: int) -> Partition:
        """Send all of `batches`. Return what the nodes have acknowledged.

        attempt: a number that is unique within the Spark application.
        Raise RunError if a row has no value in a column, or a weight that is not a number of 0 or more. Raise PeerLost
        if a node cannot be reached. Raise RunError if a node has other rows of this partition from an earlier attempt.
        """
        name = f"{number} {attempt}"
        streams = [_Stream(rank, address, self._token, name) for rank, address in enumerate(self._addresses)]
        owns = np.zeros((len(streams), self._lanes), np.bool_)
        for rank, own_lanes in enumerate(self._owned):
            owns[rank, own_lanes] = True
        lane_rows, checksum, weights = np.zeros(self._lanes, np.int64), 0, 0
        try:
            for batch in batches:
                rows = self._checked(batch)
                ids = row_ids.unsigned(rows.column(ROW_ID).to_numpy())
                lanes = row_ids.lane_of(ids, self._lanes)
                lane_rows += np.bincount(lanes, minlength=self._lanes)
                checksum = (checksum + row_ids.row_checksum(ids)) % 2**64
                if self._weight is not None:
                    weights = (weights + row_ids.weights_checksum(ids, _weights(rows, self._weight))) % 2**64
                for rank, stream in enumerate(streams):
                    taken = np.flatnonzero(owns[rank, lanes])
                    if len(taken) == len(rows) > 0:
                        stream.write(rows, ids)
                    elif len(taken):
                        stream.write(rows.take(pa.array(taken)), ids[taken])
            return Partition(number, [stream.finish() for stream in streams], lane_rows.tolist(), checksum, weights)
        finally:
            for stream in streams:
                stream.close()

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in self._schema.names:
            if batch.column(name).null_count:
                raise RunError(f"the DataFrame has a row without a value in {name}")
        if self._weight is not None:
            values = _weights(batch, self._weight)
            if not (values >= 0).all():
                wrong = values[np.argmin(values >= 0)]
                raise RunError(f"the DataFrame has a row whose weight is {wrong}; it must be a number of 0 or more")
        return pa.RecordBatch.from_arrays([batch.column(name) for name in self._schema.names], schema=self._schema)


def _weights(batch: pa.RecordBatch, weight: TensorSpec) -> npt.NDArray[Any]:
    return tensor_of(pa.chunked_array([batch.column(weight.name)]), weight)


class _Stream:
    """The rows of one partition for one node. The connection opens with the first rows."""

    def __init__(self, rank: int, address: Address, token: str, name: str) -> None:
        self._rank, self._address, self._name = rank, address, name
        self._options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        self._client: Any = None
        self._writer: Any = None
        self._answers: Any = None
        self._rows, self._checksum = 0, 0

    def write(self, rows: pa.RecordBatch, ids: row_ids.U64) -> None:
        """Send `rows`. Wait while the node is busy with earlier rows."""
        try:
            if self._client is None:
                self._open(rows.schema)
            self._writer.write_batch(rows)
        except (pa.ArrowException, OSError) as error:
            raise self._failed(error) from None
        self._rows += len(ids)
        self._checksum = (self._checksum + row_ids.row_checksum(ids)) % 2**64

    def finish(self) -> Sent:
        """End the stream and wait for the node's acknowledgement."""
        sent = Sent(self._rows, self._checksum)
        if self._writer is not None:
            try:
                self._writer.done_writing()
                answer = self._answers.read()
                if answer is None:
                    # The node ended the stream. close() raises the reason.
                    self._writer.close()
                    raise RunError(f"node {self._rank} did not acknowledge partition {self._name.split()[0]}")
            except (pa.ArrowException, OSError) as error:
                raise self._failed(error) from None
            taken = Sent(**json.loads(answer.to_pybytes()))
            if taken != sent:
                raise RunError(
                    f"partition {self._name.split()[0]} has {sent.rows} rows for node {self._rank}, which took {taken} "
                    "from an earlier attempt; a DataFrame must give the same rows when Spark computes it again"
                )
        return sent

    def close(self) -> None:
        """End the connection. The node drops an unfinished partition."""
        try:
            if self._writer is not None:
                self._writer.close()
        except (pa.ArrowException, OSError) as error:
            log.debug("a hand-off was cut, as `write` or `finish` said: %s", error)
        if self._client is not None:
            self._client.close()

    def _open(self, schema: pa.Schema) -> None:
        self._client = self._address.connect()
        descriptor = flight.FlightDescriptor.for_command(self._name.encode())
        self._writer, self._answers = self._client.do_put(descriptor, schema, options=self._options)

    def _failed(self, error: BaseException) -> PeerLost:
        place = f"{self._address.host}:{self._address.port}"
        # gRPC adds details of the error after the node's own text.
        words = re.split(r"\. (?:Detail: Failed|gRPC client debug context)", " ".join(str(error).split()))[0]
        return PeerLost(f"hand-off to node {self._rank} at {place}: {words[:300]}")
