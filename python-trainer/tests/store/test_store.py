# SPDX-License-Identifier: Apache-2.0
"""Files into a real object store and out of it again, and what is said when that fails."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from object_server import BUCKET, ObjectServer, as_client, object_server, open_store

from whetstone_models.errors import ModelError, WeightsError
from whetstone_store.errors import StoreError
from whetstone_store.location import parse_location
from whetstone_store.store import ObjectStore
from whetstone_store.transfer import Transfer, TransferError

LARGE = 21 * (1 << 20) + 17


def make_file(path: Path, size: int = LARGE) -> str:
    """Its digest."""
    data = os.urandom(size)
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def fetched(store: ObjectStore, name: str, begin: int, end: int) -> bytes:
    folder, _, file = name.rpartition("/")
    view = memoryview(bytearray(end - begin))
    with Transfer(store.origin(f"{store.url}/{folder}")) as transfer:
        transfer.read(file, begin, view, end)
    return bytes(view)


@pytest.mark.parametrize("size", [0, 5, LARGE])
def test_a_file_goes_in_and_any_part_of_it_comes_out(store: ObjectStore, tmp_path: Path, size: int) -> None:
    digest = make_file(tmp_path / "file", size)
    store.upload("a/file", tmp_path / "file", digest)
    assert store.size("a/file") == size
    assert [one[:2] for one in store.listed("a")] == [("a/file", size)]
    data = (tmp_path / "file").read_bytes()
    for begin, end in ((0, size), (size // 2, size), (size - 1, size)):
        if 0 <= begin < end:
            assert fetched(store, "a/file", begin, end) == data[begin:end]
    store.delete(["a/file", "a/absent"])
    assert (store.size("a/file"), store.read("a/file")) == (None, None)


def test_a_file_that_is_damaged_becomes_no_object(store: ObjectStore, server: ObjectServer, tmp_path: Path) -> None:
    for size in (5, LARGE):
        digest = make_file(tmp_path / "file", size)
        with (tmp_path / "file").open("r+b") as file:
            file.write(b"!")
        with pytest.raises(WeightsError, match=r"file has digest .* it is damaged"):
            store.upload("a/file", tmp_path / "file", digest)
        assert store.size("a/file") is None
    assert not unfinished(server)


def unfinished(server: ObjectServer) -> list[Path]:
    """Parts of uploads that are not objects yet."""
    return [path for path in (server.root / BUCKET).glob(".sgwtmp/**/*") if path.is_file()]


def test_what_is_stopped_leaves_nothing(store: ObjectStore, server: ObjectServer, tmp_path: Path) -> None:
    digest = make_file(tmp_path / "file")

    def stop(_: int) -> None:
        while not unfinished(server):
            time.sleep(0.01)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        store.upload("a/file", tmp_path / "file", digest, stop)
    assert store.size("a/file") is None
    assert not unfinished(server)


def test_parts_that_a_killed_process_left_are_dropped(store: ObjectStore, server: ObjectServer, tmp_path: Path) -> None:
    place = {"Bucket": BUCKET, "Key": "team/a/file"}
    upload = store._client.create_multipart_upload(**place)["UploadId"]
    store._client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"left")
    assert unfinished(server)
    store.drop_unfinished("other")
    assert unfinished(server)
    store.drop_unfinished("a")
    assert not unfinished(server)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 56 MiB: a file of 21 MiB takes twice that while it is put together."""
    path = tmp_path / "volume"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=56m", "tmpfs", path], capture_output=True).returncode != 0:
        pytest.skip("a small volume cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def test_a_full_store_says_so_and_keeps_nothing_of_it(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_server(volume) as server:
        as_client(server, monkeypatch)
        store = open_store()
        digest = make_file(tmp_path / "file")
        store.upload("a/1", tmp_path / "file", digest)
        with pytest.raises(StoreError, match=r"s3://bucket/team/a/2: InsufficientStorage: No space left") as caught:
            store.upload("a/2", tmp_path / "file", digest)
        assert caught.value.is_full
        assert store.size("a/2") is None
        assert not unfinished(server)
        store.delete(["a/1"])
        store.upload("a/2", tmp_path / "file", digest)


def test_who_is_not_let_in_is_told(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    as_client(server, monkeypatch, "another secret")
    store = open_store()
    with pytest.raises(StoreError, match=r"s3://bucket/team/a: SignatureDoesNotMatch: ") as caught:
        store.put("a", b"1")
    assert not caught.value.is_full
    with pytest.raises(TransferError, match=r"s3://bucket/team/a answered 403: SignatureDoesNotMatch: ") as refused:
        fetched(store, "a/file", 0, 1)
    assert not refused.value.is_gone
    assert "X-Amz" not in str(refused.value), "a signed URL must not be told"


def test_a_bucket_that_is_not_there_is_told(server: ObjectServer) -> None:
    with pytest.raises(StoreError, match=r"s3://no-bucket/team/a: NoSuchBucket: "):
        open_store("no-bucket").put("a", b"1")


def test_what_is_missing_or_cut_short_is_told(store: ObjectStore, server: ObjectServer, tmp_path: Path) -> None:
    store.put("a/file", b"12345")
    with pytest.raises(TransferError, match="answered 404: NoSuchKey: ") as caught:
        fetched(store, "a/absent", 0, 1)
    assert caught.value.is_gone
    server.file("a/file").write_bytes(b"123")
    with pytest.raises(TransferError, match="answered 416: it ends before byte 3") as caught:
        fetched(store, "a/file", 0, 5)
    assert caught.value.is_gone


def test_a_store_that_is_away_is_told(store: ObjectStore, server: ObjectServer) -> None:
    server.stop()
    with pytest.raises(StoreError, match=r"s3://bucket/team/a: Could not connect"):
        store.put("a", b"1")
    with pytest.raises(TransferError, match="broke off 6 times") as caught:
        fetched(store, "a/file", 0, 1)
    assert not caught.value.is_gone


@pytest.mark.parametrize(
    "url",
    ["", "bucket", "http://bucket/x", "s3://", "s3://B/x", "s3://bucket/a b", "s3://bucket/../x", "s3://bucket//x"],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ModelError, match=r"object-store: must be s3://<bucket>"):
        parse_location(url)


def test_of_a_url_bucket_and_prefix_are_read() -> None:
    assert parse_location("s3://bucket").url == parse_location("s3://bucket/").url == "s3://bucket"
    assert parse_location("s3://b.u-cket/x/y_z/").prefix == "x/y_z/"


def test_without_credentials_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ModelError, match="no credentials; set AWS_ACCESS_KEY_ID"):
        open_store()


@pytest.mark.parametrize(
    ("endpoint", "style", "begin"),
    [
        ("http://host:7000", "", "http://host:7000/bucket/team/a?"),
        ("http://host:7000", "virtual", "http://bucket.host:7000/team/a?"),
        ("", "", "https://bucket.s3.eu-west-3.amazonaws.com/team/a?"),
        ("", "path", "https://s3.eu-west-3.amazonaws.com/bucket/team/a?"),
    ],
)
def test_the_style_of_urls(endpoint: str, style: str, begin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ENDPOINT_URL_S3", endpoint), ("REGION", "eu-west-3"), ("ACCESS_KEY_ID", "a")):
        monkeypatch.setenv(f"AWS_{name}", value) if value else monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert ObjectStore(parse_location("s3://bucket/team", style)).signed("a").startswith(begin)
