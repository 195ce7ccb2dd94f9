"""What every file system must do: the tests of hdfs_io.filesystem, to be run on a `root` of each."""

from __future__ import annotations

import os
import pickle
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from hdfs_io import fence, filesystem, lease
from hdfs_io.publish import Output
from hdfs_io.replacing import publish_folder
from sparksplit.base.errors import InputError, OutputInUse, RunError
from tests.hdfs_io.leases import seize

NAMES = ("plain", "with space", "käse-写真", "100%25", "a+b&c=d,e;f", "#?[x]{y}*", "a.gz")


class FileSystemSuite:
    """Inherited by a class whose fixture `root` is a new folder's path or URI."""

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    def test_an_empty_place(self, root: str) -> None:
        path = f"{root}/none"
        assert not filesystem.exists(path)
        assert not filesystem.is_file(path)
        assert not filesystem.is_folder(path)
        assert filesystem.listing(path) == {}
        filesystem.remove(path)
        for ask in (filesystem.size, filesystem.read_bytes, filesystem.open_input, filesystem.read_json):
            with pytest.raises(InputError, match=f"^{re.escape(path)}: does not exist$"):
                ask(path)

    def test_files_and_folders(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/a/b/file", b"12345")
        filesystem.make_folder(f"{root}/a/empty")
        filesystem.make_folder(f"{root}/a/empty")
        filesystem.make_folder(f"{root}/a/empty", parents=False)
        with pytest.raises(InputError, match=r"/none/inner: "):
            filesystem.make_folder(f"{root}/none/inner", parents=False)
        with pytest.raises(InputError, match="does not exist"):
            filesystem.write_bytes(f"{root}/none/file", b"", parents=False)
        assert not filesystem.exists(f"{root}/none")
        assert filesystem.is_folder(f"{root}/a/b") and not filesystem.is_file(f"{root}/a/b")
        assert filesystem.is_file(f"{root}/a/b/file") and not filesystem.is_folder(f"{root}/a/b/file")
        assert filesystem.size(f"{root}/a/b/file") == 5
        written = filesystem.modified(f"{root}/a/b/file")
        filesystem.write_bytes(f"{root}/a/b/later", b"")
        later = filesystem.modified(f"{root}/a/b/later")
        assert written is not None and later is not None and 0 <= later - written < 600
        filesystem.remove(f"{root}/a/b/later")
        assert filesystem.modified(f"{root}/a/b/later") is None
        assert filesystem.listing(f"{root}/a") == {"b": None, "empty": None}
        assert filesystem.listing(f"{root}/a/b") == {"file": 5}
        facts = filesystem.facts(f"{root}/a/b/file")
        assert facts.bytes == 5 and facts.modified > 10**18  # nanoseconds: after 2001
        assert filesystem.entries(f"{root}/a") == {"b": None, "empty": None}
        assert filesystem.entries(f"{root}/a/b") == {"file": facts}
        with pytest.raises(InputError, match="is a folder"):
            filesystem.size(f"{root}/a")

    @pytest.mark.parametrize("name", NAMES)
    def test_names(self, root: str, name: str) -> None:
        path = filesystem.join(root, name, name)
        filesystem.write_bytes(path, name.encode())
        assert filesystem.listing(root) == {name: None}
        assert filesystem.listing(filesystem.parent(path)) == {name: len(name.encode())}
        assert filesystem.read_bytes(filesystem.absolute(path)) == name.encode()
        assert filesystem.name(path) == name

    def test_paths_are_normalised(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/a/b", b"x")
        assert filesystem.absolute(f"{root}//c/../a//./b/") == filesystem.absolute(f"{root}/a/b")
        assert filesystem.read_bytes(f"{root}/c/../a/b") == b"x"
        top = filesystem.parent(filesystem.absolute(f"{root}/{'../' * 40}"))
        assert filesystem.parent(top) == top == filesystem.absolute(top)
        assert filesystem.name(top) == ""
        assert filesystem.is_folder(top)
        assert filesystem.parent(filesystem.join(top, "x")) == top

    def test_writing_replaces_whole_files_and_leaves_no_temporary_ones(self, root: str) -> None:
        for content in (b"old", b"new", b""):
            filesystem.write_bytes(f"{root}/a", content)
            assert filesystem.read_bytes(f"{root}/a") == content
            assert filesystem.listing(root) == {"a": len(content)}

    def test_who_reads_while_another_replaces_sees_old_or_new(self, root: str) -> None:
        contents = [bytes([digit]) * 200_000 for digit in range(5)]
        filesystem.write_bytes(f"{root}/a", contents[0])
        with ThreadPoolExecutor() as threads:
            writing = [threads.submit(filesystem.write_bytes, f"{root}/a", content) for content in contents * 4]
            while not all(future.done() for future in writing):
                assert filesystem.read_bytes(f"{root}/a") in contents
            for future in writing:
                future.result()
        assert list(filesystem.listing(root)) == ["a"]

    def test_a_file_whose_writing_fails_is_not_there(self, root: str) -> None:
        filesystem.make_folder(f"{root}/a/full")
        with pytest.raises(InputError, match="cannot be written"):
            filesystem.write_bytes(f"{root}/a", b"x")
        assert filesystem.listing(root) == {"a": None}

    def test_a_file_cannot_be_a_folder(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/file", b"x")
        with pytest.raises(InputError, match="file/b: cannot be made"):
            filesystem.make_folder(f"{root}/file/b")
        with pytest.raises(InputError, match="cannot be read"):
            filesystem.listing(f"{root}/file")

    def test_of_several_that_make_a_file_one_does(self, root: str) -> None:
        path = f"{root}/a/new"
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda k: filesystem.create_bytes(path, str(k).encode()), range(4)))
        assert sorted(made) == [False, False, False, True]
        assert filesystem.read_bytes(path) == str(made.index(True)).encode()
        assert list(filesystem.listing(f"{root}/a")) == ["new"]
        filesystem.make_folder(f"{root}/folder")
        assert not filesystem.create_bytes(f"{root}/folder", b"")

    def test_random_access(self, root: str) -> None:
        content = os.urandom(3_000_000)
        filesystem.write_bytes(f"{root}/a", content)
        with filesystem.open_input(f"{root}/a") as file:
            assert file.size() == len(content)
            places = [0, 1, 2_999_999, 5, 1_048_570, 1_048_580, 1_048_600, 2_500_000, 2_500_100, 2_999_990]
            for place in places:
                for count in (1, 100, 70_000, 2_000_000):
                    file.seek(place)
                    assert file.read(count) == content[place : place + count]
                    assert file.tell() == min(place + count, len(content))
            file.seek(-10, os.SEEK_END)
            assert file.read() == content[-10:]
            file.seek(0)
            parts = iter(lambda: file.read(100_000), b"")
            assert b"".join(parts) == content

    def test_parquet(self, root: str) -> None:
        table = pa.table({"x": list(range(100_000)), "s": [f"row {row}" for row in range(100_000)]})
        target, inner = filesystem.resolve(f"{root}/a.parquet")
        with pq.ParquetWriter(inner, table.schema, filesystem=target) as writer:
            for start in range(0, 100_000, 10_000):
                writer.write_table(table.slice(start, 10_000))
        assert pq.read_table(inner, filesystem=target).equals(table)

        def group(number: int) -> pa.Table:
            with pq.ParquetFile(target.open_input_file(inner)) as file:
                return file.read_row_group(number)

        with ThreadPoolExecutor(4) as threads:
            assert pa.concat_tables(threads.map(group, range(10))).equals(table)

    def test_an_output_stream_needs_its_folder(self, root: str) -> None:
        target, inner = filesystem.resolve(f"{root}/none/a")
        with pytest.raises(FileNotFoundError):
            target.open_output_stream(inner)
        assert not filesystem.exists(f"{root}/none")

    def test_remove(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/a/b/c", b"x")
        filesystem.write_bytes(f"{root}/d", b"x")
        filesystem.remove(f"{root}/a")
        filesystem.remove(f"{root}/d")
        assert filesystem.listing(root) == {}

    def test_folders_that_nothing_is_in(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/there/x", b"x")
        made = filesystem.missing(f"{root}/there/a/b")
        assert [filesystem.name(folder) for folder in made] == ["b", "a"]
        filesystem.remove_empty(made)
        filesystem.make_folder(f"{root}/there/a/b")
        assert filesystem.missing(f"{root}/there/a/b") == []
        filesystem.remove_empty(made)
        assert filesystem.listing(f"{root}/there") == {"x": 1}
        filesystem.write_bytes(f"{root}/there/a/y", b"y")
        filesystem.make_folder(f"{root}/there/a/b")
        filesystem.remove_empty(made)
        assert filesystem.listing(f"{root}/there/a") == {"y": 1}

    def test_rename(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/file", b"new")
        filesystem.write_bytes(f"{root}/old", b"old")
        filesystem.rename(f"{root}/file", f"{root}/old")
        assert filesystem.read_bytes(f"{root}/old") == b"new"
        filesystem.write_bytes(f"{root}/folder/x", b"x")
        filesystem.make_folder(f"{root}/empty")
        filesystem.rename(f"{root}/folder", f"{root}/empty")
        assert filesystem.listing(f"{root}/empty") == {"x": 1}
        assert filesystem.listing(root) == {"old": 3, "empty": None}

    def test_a_rename_never_goes_into_a_folder_or_over_a_full_one(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/full/x", b"x")
        filesystem.write_bytes(f"{root}/other/y", b"y")
        filesystem.write_bytes(f"{root}/file", b"z")
        for old in ("other", "file"):
            with pytest.raises(InputError, match="full: cannot be written"):
                filesystem.rename(f"{root}/{old}", f"{root}/full")
        with pytest.raises(InputError, match="does not exist"):
            filesystem.rename(f"{root}/none", f"{root}/new")
        with pytest.raises(InputError, match="does not exist"):
            filesystem.rename(f"{root}/file", f"{root}/none/new")
        assert filesystem.listing(f"{root}/full") == {"x": 1}
        assert filesystem.listing(root) == {"file": 1, "full": None, "other": None}

    def test_a_folder_takes_the_place_of_another(self, root: str) -> None:
        for number in range(3):
            filesystem.write_bytes(f"{root}/next/{number}", b"x")
            publish_folder(f"{root}/next", f"{root}/final", lambda: None, str.isdigit)
            assert filesystem.listing(root) == {"final": None}
            assert filesystem.listing(f"{root}/final") == {f"{number}": 1, **({"another's": None} if number else {})}
            filesystem.write_bytes(f"{root}/final/another's/file", b"x")

    def test_an_output_is_one_commands_at_a_time(self, root: str) -> None:
        first, second = (Output(f"{root}/run", "a", "train") for _ in range(2))
        with first.claimed():
            first.begin()
            first.lease.tell("application_1")
            assert sorted(filesystem.listing(root)) == [".run.owner", "run"]
            with pytest.raises(OutputInUse, match="application_1"), second.claimed():
                raise AssertionError
            age = lease.age(first.lease.file)
            assert age is not None and 0 <= age < 600
            first.complete()
        with second.claimed(overwrite=True):
            second.begin()
            assert sorted(filesystem.listing(root)) == [".run.next", ".run.owner", "run"]
            second.complete()
        assert filesystem.listing(root) == {"run": None}

    @pytest.mark.parametrize("late", [False, True])
    def test_who_was_superseded_writes_nothing_more(
        self, root: str, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """late: it is superseded between its look at the lease and its rename."""
        first, second = (Output(f"{root}/run", "a", "train") for _ in range(2))
        local = tmp_path / "local"
        (local / "inner").mkdir(parents=True)
        (local / "inner" / "file").write_text("x")
        first.lease.acquire()
        first.begin()
        first.fence.upload(local, f"{root}/run/checkpoints/one")
        first.fence.write_bytes(f"{root}/run/file", b"first's")
        looked = fence.check_owner

        def take_over(path: str = "", owner: str = "") -> None:
            if late:
                looked(path, owner)
            monkeypatch.setattr(fence, "check_owner", looked)
            seize(second.lease)
            second.go_on()
            second.fence.write_bytes(f"{root}/run/file", b"second's")

        writes = (
            lambda: first.fence.write_bytes(f"{root}/run/file", b"first's again"),
            lambda: first.fence.upload(local, f"{root}/run/checkpoints/one"),
            lambda: first.fence.upload(local, f"{root}/run/checkpoints/two"),
            lambda: first.fence.remove(f"{root}/run/checkpoints/one"),
        )
        for write in writes:
            seize(first.lease)
            first.enclose()
            if late:
                monkeypatch.setattr(fence, "check_owner", take_over)
            else:
                take_over()
            with pytest.raises(
                RunError, match=r"another run has taken over this output; this one ends: train on \S+ \("
            ):
                write()
        assert filesystem.read_bytes(f"{root}/run/file") == b"second's"
        assert list(filesystem.tree(f"{root}/run")) == ["_CONFIG", "checkpoints/one/inner/file", "file"]
        second.complete()
        assert list(filesystem.listing(f"{root}/run")) == ["_CONFIG", "_SUCCESS", "checkpoints", "file"]
        first.lease.release()
        second.lease.release()

    def test_pyarrow_and_pickle_know_it(self, root: str) -> None:
        for name in ("a", "sub/b"):
            filesystem.write_bytes(f"{root}/folder/{name}", name.encode())
        source, inner = pickle.loads(pickle.dumps(filesystem.resolve(f"{root}/folder")))
        assert source == filesystem.resolve(root)[0]
        target = f"{filesystem.resolve(root)[1]}/copy-{uuid.uuid4().hex}"
        fs.copy_files(inner, target, source_filesystem=source, destination_filesystem=source)
        found = source.get_file_info(fs.FileSelector(target, recursive=True))
        assert sorted(info.path for info in found) == [f"{target}/a", f"{target}/sub", f"{target}/sub/b"]
        with source.open_input_stream(f"{target}/sub/b") as stream:
            assert stream.read() == b"sub/b"

    def test_it_works_on_in_a_forked_process(self, root: str) -> None:
        filesystem.write_bytes(f"{root}/a", b"parent's")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                filesystem.write_bytes(f"{root}/b", filesystem.read_bytes(f"{root}/a") + b" child")
                os.write(write, b"done")
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            assert answer.read() == b"done"
        os.waitpid(child, 0)
        assert filesystem.read_bytes(f"{root}/b") == b"parent's child"
