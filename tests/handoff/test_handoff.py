"""Rows from a partition's batches to a node's blocks, over real Arrow Flight, without Spark or TensorFlow."""

from __future__ import annotations

import resource
import shutil
import signal
import socket
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.base.errors import InputError, NodeFailed, Passing, RunError, exit_status
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.lane_files import Layout, binary_column, tensor_of
from sparksplit.handoff.job import EXPLAIN, Fed, FeedJob
from sparksplit.handoff.receiver import Receiver
from sparksplit.handoff.sender import Partition, Sender, Sent
from sparksplit.handoff.spool import Spool
from sparksplit.network.listening import Network
from sparksplit.rows.feed import Feed
from sparksplit.strategies.splits import BatchSplit, EpochSplit, owned_by_rank
from tests.disks import make_read_only, small_disk

ROWS, LANES = 500, 7


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    generator = np.random.default_rng(5)
    tensors = {"x": generator.integers(0, 255, (ROWS, 3, 2), dtype=np.uint8), "z": generator.random((ROWS, 4))}
    folder = str(tmp_path_factory.mktemp("handoff") / "data")
    return from_arrays(folder, {"train": (tensors, np.arange(ROWS) % 3)}, lanes=LANES, block_size=1000)


@pytest.fixture(scope="module")
def schema(data):
    manifest = data.manifest
    return Layout.of(manifest).schema


@pytest.fixture(scope="module")
def batches(data):
    """All rows of the training split, in a handful of batches."""
    files = [pq.read_table(f"{data.path}/{file}") for file in data.files("train")]
    return pa.concat_tables(files).combine_chunks().to_batches(max_chunksize=64)


@pytest.fixture
def receivers(tmp_path, schema):
    made = []

    def make(nodes):
        made.extend(Receiver("127.0.0.1", "token", str(tmp_path / str(rank)), schema) for rank in range(nodes))
        return made

    yield make
    for receiver in made:
        receiver.close()


class Contiguous(BatchSplit):
    """A user's own split, whose nodes own neighbouring lanes."""

    def lanes(self, lanes, rank, nodes):
        return np.array_split(np.arange(lanes), nodes)[rank]


def sender_to(receivers, schema, token="token", split=BatchSplit()):  # noqa: B008
    owned = owned_by_rank(split, LANES, len(receivers))
    return Sender([receiver.address for receiver in receivers], token, schema, LANES, owned)


def spool_of(data, receiver, fed, rank, own):
    manifest = data.manifest
    return Spool(receiver.finish(fed.partitions(rank)), manifest.description, fed.lane_rows, own, manifest.block_rows)


def assert_the_blocks_are_those_of(data, ends, fed, owned):
    """What each node has been fed are the blocks of its lanes in `data`. owned: lanes by rank."""
    for rank, own in enumerate(owned):
        spool = spool_of(data, ends[rank], fed, rank, own)
        reader = data.split("train").reader()
        for lane in own:
            for number in range(data.manifest.blocks("train", lane)):
                expected, found = reader.read(lane, number), spool.read(lane, number)
                assert found.row_ids.tobytes() == expected.row_ids.tobytes()
                assert found.label.tobytes() == expected.label.tobytes()
                for name in ("x", "z"):
                    assert found.tensors[name].shape == expected.tensors[name].shape
                    assert found.tensors[name].tobytes() == expected.tensors[name].tobytes()
            with pytest.raises(IndexError):
                spool.read(lane, data.manifest.blocks("train", lane))
        spool.end()
        reader.close()


@pytest.mark.parametrize("split", [BatchSplit(), Contiguous(), EpochSplit()])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_uneven_and_empty_partitions_become_the_blocks_of_the_prepared_data_set(
    data, schema, batches, receivers, nodes, split
):
    """A partition that was sent twice counts once, and one that was cut does not count. Lanes are the split's."""
    ends = receivers(nodes)
    sender = sender_to(ends, schema, split=split)
    owned = owned_by_rank(split, LANES, nodes)
    parts = [batches[:5], [], batches[5:6], batches[6:]]
    partitions = [sender.send(part, number, 10 + number) for number, part in enumerate(parts)]
    assert sender.send(parts[0], 0, 99) == partitions[0]

    def cut():
        yield parts[0][0]
        raise OSError("the task was ended")

    with pytest.raises(OSError, match="the task was ended"):
        sender.send(cut(), 0, 100)
    fed = Fed.of([part.packed() for part in partitions], owned, LANES)
    rows = data.manifest.splits["train"]
    assert (fed.rows, fed.checksum, fed.lane_rows) == (ROWS, rows.checksum, rows.lane_rows)
    assert_the_blocks_are_those_of(data, ends, fed, owned)


@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 166, 499, 500])
def test_each_nodes_shares_of_mini_batches_are_those_of_reading_the_files(
    data, schema, batches, receivers, batch_size, cache
):
    """Where its rows fit into the cache, and where they do not; it has none of the last mini-batch of one row."""
    ends = receivers(3)
    owned = owned_by_rank(BatchSplit(), LANES, 3)
    fed = Fed.of([sender_to(ends, schema).send(batches, 0, 0).packed()], owned, LANES)
    for rank, own in enumerate(owned):
        spool, chunks = spool_of(data, ends[rank], fed, rank, own), []
        for source in (spool, data.split("train")):
            feed = Feed(source, np.array(own), batch_size=batch_size, cache=cache)
            chunks.append(list(feed.epoch(0)))
            feed.close()
        for found, expected in zip(*chunks, strict=True):
            for one, other in zip([found.label, *found.tensors], [expected.label, *expected.tensors], strict=True):
                np.testing.assert_array_equal(one, other)
            assert (found.offsets.tolist(), found.seen) == (expected.offsets.tolist(), expected.seen)
        spool.end()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(drawn=st.data())
def test_any_partitions_in_any_order_become_the_blocks_of_the_prepared_data_set(data, schema, batches, drawn):
    """However the rows are cut into partitions and batches, of which some are sent again."""
    nodes = drawn.draw(st.integers(1, 3))
    cuts = [0, *sorted(drawn.draw(st.lists(st.integers(0, ROWS), max_size=6))), ROWS]
    step = drawn.draw(st.integers(1, 200))
    table = pa.Table.from_batches(batches)
    parts = [table.slice(one, two - one).to_batches(max_chunksize=step) for one, two in pairwise(cuts)]
    with TemporaryDirectory() as folder:
        ends = [Receiver("127.0.0.1", "token", f"{folder}/{rank}", schema) for rank in range(nodes)]
        try:
            sender = sender_to(ends, schema)
            partitions = {}
            for number in drawn.draw(st.permutations(range(len(parts)))):
                partitions[number] = sender.send(parts[number], number, number)
                if drawn.draw(st.booleans()):
                    assert sender.send(parts[number], number, 100 + number) == partitions[number]
            owned = owned_by_rank(BatchSplit(), LANES, nodes)
            fed = Fed.of([partitions[number].packed() for number in range(len(parts))], owned, LANES)
            assert fed.rows == ROWS
            assert_the_blocks_are_those_of(data, ends, fed, owned)
        finally:
            for end in ends:
                end.close()


def test_only_what_counts_stays_on_the_disk_and_the_port_is_freed(schema, batches, receivers, tmp_path):
    (receiver,) = receivers(1)
    sender = sender_to([receiver], schema)
    (sent,) = sender.send(batches, 0, 1).sent
    sender.send(batches, 0, 2)
    (path,) = receiver.finish([(0, sent.rows, sent.checksum)])
    assert list((tmp_path / "0").iterdir()) == [path]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((receiver.address.host, receiver.address.port), 1)


def test_other_rows_of_a_partition_that_was_taken_are_refused(schema, batches, receivers):
    (receiver,) = receivers(1)
    sender = sender_to([receiver], schema)
    sender.send(batches[:2], 3, 1)
    with pytest.raises(RunError, match=r"partition 3 has 64 rows for node 0, which took .*the same rows when"):
        sender.send(batches[:1], 3, 2)


def test_a_full_spool_disk_is_named_by_the_node_and_to_the_sender(schema, batches, tmp_path):
    """In one line each, with the folder; the node tells the driver, which knows its host."""
    with small_disk(tmp_path / "disk", kibibytes=8) as disk:
        receiver = Receiver("127.0.0.1", "token", f"{disk}/spool", schema)
        try:
            with pytest.raises(RunError) as raised:
                sender_to([receiver], schema).send(batches, 0, 0)
            assert receiver.failure is not None and exit_status(receiver.failure) == 1
            assert str(receiver.failure) == f"{disk}/spool: cannot take more rows: No space left on device"
            assert str(raised.value) == (f"hand-off to node 0 at 127.0.0.1:{receiver.address.port}: {receiver.failure}")
            assert list((disk / "spool").iterdir()) == []
        finally:
            receiver.close()


def test_a_disk_with_no_room_for_another_file(schema, batches, tmp_path):
    """The first byte does not fit; what filled the disk is not the hand-off's."""
    with small_disk(tmp_path / "disk", kibibytes=64) as disk:
        receiver = Receiver("127.0.0.1", "token", f"{disk}/spool", schema)
        try:
            with pytest.raises(OSError, match="No space"), (disk / "other").open("wb", buffering=0) as other:
                while True:
                    other.write(bytes(4096))
            with pytest.raises(RunError, match=r"cannot take more rows: No space left on device$"):
                sender_to([receiver], schema).send(batches, 0, 0)
            assert isinstance(receiver.failure, Passing)
            assert list((disk / "spool").iterdir()) == []
            (disk / "other").unlink()
            assert sender_to([receiver], schema).send(batches, 0, 1).sent[0].rows == ROWS
        finally:
            receiver.close()


def test_a_disk_that_becomes_read_only_is_the_hosts_failure(schema, batches, tmp_path):
    """Not a mistake in the input, which would end the run: the next attempt may have another host."""
    with small_disk(tmp_path / "disk", kibibytes=256) as disk:
        receiver = Receiver("127.0.0.1", "token", f"{disk}/spool", schema)

        try:
            with pytest.raises(RunError, match=r"cannot take more rows: Read-only file system$"):
                sender_to([receiver], schema).send(batches[:0], 0, 0)
                make_read_only(disk)
                sender_to([receiver], schema).send(batches, 1, 0)
            assert type(receiver.failure) is Passing
            assert str(receiver.failure) == f"{disk}/spool: cannot take more rows: Read-only file system"
        finally:
            receiver.close()


def test_a_folder_that_was_cleaned_away_is_the_hosts_failure(data, schema, batches, tmp_path, receivers):
    (receiver,) = receivers(1)
    partition = sender_to([receiver], schema).send(batches, 0, 0)
    fed = Fed.of([partition.packed()], owned_by_rank(BatchSplit(), LANES, 1), LANES)
    shutil.rmtree(tmp_path / "0")
    with pytest.raises(RunError, match=r"cannot take more rows: No such file or directory$"):
        sender_to([receiver], schema).send(batches, 1, 0)
    assert type(receiver.failure) is Passing
    with pytest.raises(Passing, match=r"0-0\.arrow: cannot be read: No such file or directory$"):
        spool_of(data, receiver, fed, 0, list(range(LANES)))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_encrypted_hand_off_serves_those_who_trust_its_certificate(data, schema, batches, tmp_path, host):
    receiver = Receiver(host, "token", str(tmp_path / "rows"), schema, Network(tls=True))
    other = Receiver(host, "token", str(tmp_path / "other"), schema, Network(tls=True))
    try:
        sent = sender_to([receiver], schema).send(batches, 0, 0).sent
        assert sum(part.rows for part in sent) == data.manifest.splits["train"].rows
        stranger = replace(receiver.address, certificate=other.address.certificate)
        plain = replace(receiver.address, certificate=None)
        for address in (stranger, plain):
            with pytest.raises(RunError, match=f"hand-off to node 0 at {host}:"):
                Sender([address], "token", schema, LANES, [range(LANES)]).send(batches, 1, 1)
        assert receiver.rows == sent[0].rows
    finally:
        receiver.close()
        other.close()


def test_a_node_takes_more_partitions_than_it_may_have_files_open_at_first(data, schema, batches, tmp_path):
    """The usual limit is 1,024; every partition is a file that stays mapped."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 60, before[1]))
    receiver = Receiver("127.0.0.1", "token", str(tmp_path / "rows"), schema)
    try:
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        sender = sender_to([receiver], schema)
        pieces = [rows.slice(number, 1) for number in range(150)] + [rows.slice(150)]
        partitions = [sender.send([piece], number, number) for number, piece in enumerate(pieces)]
        owned = owned_by_rank(BatchSplit(), LANES, 1)
        assert_the_blocks_are_those_of(
            data, [receiver], Fed.of([part.packed() for part in partitions], owned, LANES), owned
        )
    finally:
        receiver.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_the_token_nothing_is_taken(schema, batches, receivers, tmp_path):
    (receiver,) = receivers(1)
    with pytest.raises(RunError, match=r"hand-off to node 0 at 127\.0\.0\.1:\d+: .*token is missing or wrong"):
        sender_to([receiver], schema, token="other").send(batches, 0, 1)
    assert (receiver.rows, list((tmp_path / "0").iterdir())) == (0, [])


def test_the_port_is_on_the_given_address_only(receivers):
    (receiver,) = receivers(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", receiver.address.port), 1)


def test_a_receiver_leaves_signals_to_the_process(schema, batches, receivers):
    (receiver,) = receivers(1)
    sender = sender_to([receiver], schema)
    sender.send(batches, 0, 1)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert sender.send(batches, 1, 1).sent[0].rows == sum(map(len, batches))


def test_other_columns_are_refused(schema, batches, receivers):
    (receiver,) = receivers(1)
    fewer = pa.schema([schema.field("row_id"), schema.field("x")])
    with pytest.raises(RunError, match="unexpected columns"):
        sender_to([receiver], fewer).send(batches, 0, 1)


def test_a_row_without_a_value_is_refused(schema, batches, receivers):
    (receiver,) = receivers(1)
    columns = batches[0].to_pydict()
    columns["x"][3] = None
    fields = [pa.field(field.name, field.type) for field in schema]
    with pytest.raises(RunError, match="the DataFrame has a row without a value in x"):
        sender_to([receiver], schema).send([pa.RecordBatch.from_pydict(columns, schema=pa.schema(fields))], 0, 1)


@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_a_weight_that_is_none_is_refused(tmp_path, wrong):
    x, weight = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    data = from_arrays(str(tmp_path / "data"), {"train": ({"x": x, "weight": weight}, np.arange(6) % 2)}, lanes=LANES)
    schema, spec = Layout.of(data.manifest).schema, data.manifest.tensors[1]
    assert spec.name == "weight"
    rows = pa.concat_tables([pq.read_table(f"{data.path}/{file}") for file in data.files("train")]).combine_chunks()
    other = binary_column(np.where(x == 4, np.float32(wrong), weight), spec)
    wrongly = rows.set_column(rows.schema.get_field_index("weight"), "weight", other)
    receiver = Receiver("127.0.0.1", "token", str(tmp_path / "spool"), schema)
    sender = Sender([receiver.address], "token", schema, LANES, [range(LANES)], spec)
    partition = sender.send(rows.to_batches(), 0, 0)
    assert (partition.sent[0].rows, partition.weights) == (6, data.manifest.splits["train"].weights_checksum)
    with pytest.raises(RunError, match=f"has a row whose weight is {wrong}; it must be a number of 0 or more"):
        sender.send(wrongly.to_batches(), 1, 1)
    receiver.close()


def test_rows_that_are_missing_at_the_end_are_noticed(data, schema, batches, receivers):
    (receiver,) = receivers(1)
    partition = sender_to([receiver], schema).send(batches[1:], 1, 1)
    sent = partition.sent[0]
    with pytest.raises(RunError, match="the hand-off lost rows: partition 1 arrived"):
        receiver.finish([(1, sent.rows + 1, sent.checksum)])
    paths = receiver.finish([(1, sent.rows, sent.checksum)])
    split = data.split("train")
    with pytest.raises(RunError, match="the hand-off lost rows: lane"):
        Spool(paths, data.description, split.lane_rows, np.arange(LANES), split.block_rows)


def test_a_row_id_that_occurs_twice_is_named(data, schema, batches, receivers):
    (receiver,) = receivers(1)
    partition = sender_to([receiver], schema).send([*batches, batches[0].slice(0, 1)], 0, 1)
    fed = Fed.of([partition.packed()], [range(LANES)], LANES)
    with pytest.raises(InputError, match=f"row_id {batches[0].column('row_id')[0].as_py()} twice"):
        spool_of(data, receiver, fed, 0, range(LANES))


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        (np.arange(10), None),
        (np.arange(10)[::-1], None),
        (np.arange(10) + 1, 10),
        (np.array([0, 1, 2, 4, 5, 6, 7, 8, 9, 10]), 10),
        (np.array([0, 1, 2, 3, 4, 5, 6, -7, 8, 9]), -7),
        (np.array([2**40, 1, 2, 3, 4, 5, 6, 7, 8, 100]), 100),
    ],
)
def test_rows_in_a_given_order_have_their_numbers_as_row_ids(tmp_path, numbers, wrong):
    """Another start, gaps or hashes would train in another order."""
    data = from_arrays(str(tmp_path / "data"), {"train": (np.zeros((10, 1), np.float32), None)}, lanes=4, order="given")
    schema = Layout.of(data.manifest).schema
    x = binary_column(np.zeros((10, 1), np.float32), data.manifest.tensors[0])
    batch = pa.record_batch([pa.array(numbers, pa.int64()), x], schema=schema)
    owned = [[0, 2], [1, 3]]
    receivers = [Receiver("127.0.0.1", "token", str(tmp_path / str(rank)), schema) for rank in (0, 1)]
    partition = Sender([one.address for one in receivers], "token", schema, 4, owned).send([batch], 0, 0).packed()
    fed, found = Fed.of([partition], owned, 4), []
    for rank, receiver in enumerate(receivers):
        files = receiver.finish(fed.partitions(rank))
        try:
            Spool(files, data.description, fed.lane_rows, np.array(owned[rank]), 16, numbered=True).end()
        except InputError as error:
            found.append(str(error))
    says = f"the DataFrame has the row_id {wrong}, but its 10 rows must have the row_ids 0 to 9, because the data set"
    assert len(found) == (0 if wrong is None else len(set(numbers[(numbers < 0) | (numbers > 9)] % 2)))
    assert wrong is None or any(text.startswith(says) for text in found)


@pytest.mark.parametrize("file_size", [1 << 20, 3000])
def test_a_byte_that_has_flipped_on_the_way_is_found_by_the_manifests_checksums(tmp_path, file_size):
    """In one file, and in several, whose lanes go on in another within a block."""
    x = np.random.default_rng(5).integers(0, 255, (ROWS, 20), dtype=np.uint8)
    data = from_arrays(
        str(tmp_path / "data"), {"train": (x, np.arange(ROWS) % 3)}, lanes=2, block_size=800, file_size=file_size
    )
    split, schema = data.split("train"), Layout.of(data.manifest).schema
    assert (len(data.files("train")) > 2) == (file_size < 10000)
    batches = [
        batch
        for file in data.files("train")
        for batch in pq.read_table(f"{data.path}/{file}").to_batches(max_chunksize=64)
    ]
    (spec,) = data.manifest.tensors
    values = tensor_of(pa.chunked_array([batches[3].column("x")]), spec).copy()
    values[0, 10] ^= 1
    wrong = batches[3].set_column(schema.get_field_index("x"), "x", binary_column(values, spec))
    for rank, content in enumerate((batches, [*batches[:3], wrong, *batches[4:]])):
        receiver = Receiver("127.0.0.1", "token", str(tmp_path / str(rank)), schema)
        sent = Sender([receiver.address], "token", schema, 2, [[0, 1]]).send(content, 0, 0).sent[0]
        paths = receiver.finish([(0, sent.rows, sent.checksum)])
        spool = Spool(paths, data.description, split.lane_rows, np.arange(2), split.block_rows, split.place_of)
        if content is batches:
            spool.verify(data.path, data.segments("train"))
            continue
        row_id = int(row_ids_of(wrong)[0])
        place = split.place_of(row_id).partition(", row ")[0]
        with pytest.raises(
            InputError, match=rf"^{place}: is damaged: its checksum is \w+, but was \w+ when it was written$"
        ):
            spool.verify(data.path, data.segments("train"))


def row_ids_of(batch):
    return batch.column("row_id").to_numpy().view(np.uint64)


def test_rows_that_a_node_has_not_acknowledged_are_noticed():
    """Three lanes, of which node 0 owns the first two."""
    partition = Partition(0, [Sent(5, 1), Sent(4, 2)], [3, 2, 4], 3)
    fed = Fed.of([partition.packed(), replace(partition, number=1).packed()], [[0, 1], [2]], 3)
    assert (fed.rows, fed.checksum, fed.partitions(1)) == (18, 6, [(0, 4, 2), (1, 4, 2)])
    # Together there are as many rows as were read, and yet both nodes would train on the wrong ones.
    with pytest.raises(RunError, match=r"Spark has read 3 for node 0, but the node has received 5"):
        Fed.of([partition.packed()], [[0], [1, 2]], 3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 "
            "in stage 1.0 (TID 4) (host2 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the "
            "running tasks) Reason: Command exited with code 137",
            NodeFailed,
        ),
        (
            "Traceback (most recent call last):\n  File x\nsparksplit.base.errors.PeerLost: hand-off to node 1 at "
            "10.0.0.2:4100: failed to connect to all addresses\n",
            NodeFailed,
        ),
        (
            "An error occurred while calling o99.collectToPython.\n: org.apache.spark.SparkException: Job aborted: "
            "Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 4) "
            "(host2 executor 3): java.net.ConnectException: Call From host2/10.0.0.2 to nn:8020 failed on connection "
            "exception: java.net.ConnectException: Connection refused\n\tat sun.misc",
            Passing,
        ),
        (
            "An error occurred while calling o99.collectToPython.\n: org.apache.spark.SparkException: Job aborted: "
            "org.apache.spark.memory.SparkOutOfMemoryError: error while calling spill()\n\tat x\n"
            "Caused by: java.io.IOException: No space left on device\n",
            Passing,
        ),
        ("Traceback (most recent call last):\n  File x\nValueError: no label 3 today\n", RunError),
        ("Traceback (most recent call last):\n  File x\nValueError: a hand-off to node 1 at noon\n", RunError),
    ],
)
def test_a_lost_feed_may_pass_and_an_error_in_its_rows_may_not(text, kind):
    job = FeedJob(None, None, 0, "", 0, [], lambda: None)
    job._failure = time.monotonic() - EXPLAIN, RuntimeError(text)
    with pytest.raises(RunError, match=r"^feeding failed: ") as caught:
        job.result()
    assert type(caught.value) is kind
