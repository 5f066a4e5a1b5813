# SPDX-License-Identifier: Apache-2.0
"""A data folder of one's own: models by digest over real gRPC, whatever breaks on the way."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from whetstone.artifacts.v1 import artifacts_pb2 as wire
from whetstone.artifacts.v1 import artifacts_pb2_grpc as rpc

from whetstone_models.errors import ModelError
from whetstone_store.artifact_source import ArtifactSource
from whetstone_store.own_data import OwnData

PART = 1 << 16


class Served(rpc.ArtifactServiceServicer):
    """Gives the files of each digest, as the controller does."""

    def __init__(self) -> None:
        self.artifacts: dict[str, dict[str, bytes]] = {}
        # How many reads break after their first part, and how many were made.
        self.breaks, self.reads = 0, 0
        self.damaged = False

    def GetArtifact(self, request: wire.GetArtifactRequest, context: grpc.ServicerContext) -> wire.GetArtifactResponse:
        files = self.artifacts.get(request.digest)
        if files is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"sha256:{request.digest} is not in the store: push it again")
            raise AssertionError
        listed = [
            wire.ArtifactFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for path, data in files.items()
        ]
        return wire.GetArtifactResponse(artifact=wire.Artifact(files=listed))

    def ReadFile(self, request: wire.ReadFileRequest, context: grpc.ServicerContext) -> Iterator[wire.ReadFileResponse]:
        self.reads += 1
        data = self.artifacts[request.digest][request.path]
        for at in range(0, len(data), PART):
            yield wire.ReadFileResponse(content=bytes(PART) if self.damaged else data[at : at + PART])
            if self.breaks > 0:
                self.breaks -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "the controller is ending")


@pytest.fixture
def served() -> Iterator[Served]:
    servicer = Served()
    server = grpc.server(ThreadPoolExecutor(4))
    rpc.add_ArtifactServiceServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")  # type: ignore[attr-defined]
    server.start()
    yield servicer
    server.stop(None).wait(5)


@pytest.fixture
def own(served: Served, tmp_path: Path) -> OwnData:
    return OwnData(tmp_path / "own", ArtifactSource(f"127.0.0.1:{served.port}", None))  # type: ignore[attr-defined]


def digest_of(number: int) -> str:
    return f"{number:064x}"


def named(digest: str, root: str = "/data") -> Path:
    return Path(root) / "artifacts/sha256" / digest / "files"


def test_a_model_is_fetched_once_into_the_own_folder(served: Served, own: OwnData, tmp_path: Path) -> None:
    files = {"config.json": b"{}", "sub/model.safetensors": b"w" * (3 * PART + 5), "empty": b""}
    served.artifacts[digest_of(1)] = files
    # Somebody else's copy, which is not looked at.
    elsewhere = named(digest_of(1), str(tmp_path / "controller"))
    elsewhere.mkdir(parents=True)
    (elsewhere / "config.json").write_bytes(b"another one's")
    told = list[int]()

    def heard(total: int) -> object:
        told.append(total)
        return told.append

    for path in (elsewhere, named(digest_of(1))):
        place = own.bring(path, heard)  # type: ignore[arg-type]
        assert place == own.place(path) == named(digest_of(1), str(tmp_path / "own"))
        assert {
            one.relative_to(place).as_posix(): one.read_bytes() for one in place.rglob("*") if one.is_file()
        } == files
    assert served.reads == len(files)
    assert told[1] == sum(map(len, files.values())) == sum(told[2:])
    assert own.bring(named(digest_of(1)) / "sub") == own.place(named(digest_of(1))) / "sub"


def test_other_paths_stay_as_they_are(own: OwnData, tmp_path: Path) -> None:
    assert own.bring(tmp_path / "models/mine") == own.place(tmp_path / "models/mine") == tmp_path / "models/mine"
    assert own.run(Path("/data/runs/uid-1")) == tmp_path / "own/runs/uid-1"


def test_a_transfer_that_breaks_is_made_again(served: Served, own: OwnData) -> None:
    served.artifacts[digest_of(1)] = {"model": bytes(range(256)) * 1024}
    served.breaks = 2
    place = own.bring(named(digest_of(1)))
    assert (place / "model").read_bytes() == bytes(range(256)) * 1024
    assert served.reads == 3


def test_what_cannot_be_had_is_said_and_leaves_nothing_that_looks_whole(served: Served, own: OwnData) -> None:
    with pytest.raises(ModelError, match="is not in the store: push it again"):
        own.bring(named(digest_of(9)))
    served.artifacts[digest_of(1)] = {"model": b"x" * PART}
    served.damaged = True
    with pytest.raises(ModelError, match=r"model of sha256:0+1 did not arrive as it is stored"):
        own.bring(named(digest_of(1)))
    served.artifacts[digest_of(2)] = {"../model": b"x"}
    with pytest.raises(ModelError, match="none below a folder"):
        own.bring(named(digest_of(2)))
    assert not any(own.place(named(digest_of(one))).exists() for one in (1, 2, 9))
    served.damaged = False
    assert (own.bring(named(digest_of(1))) / "model").read_bytes() == b"x" * PART


def test_who_is_stopped_while_nobody_answers_stops(tmp_path: Path) -> None:
    own, asked = OwnData(tmp_path / "own", ArtifactSource("127.0.0.1:1", None)), threading.Event()

    def stop(_: int) -> None:
        asked.set()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        own.bring(named(digest_of(1)), lambda _: stop)
    assert asked.is_set()


def test_only_the_models_that_were_used_last_are_kept(served: Served, own: OwnData) -> None:
    for number in range(6):
        served.artifacts[digest_of(number)] = {"model": b"x"}
        own.bring(named(digest_of(number)))
        own.bring(named(digest_of(0)))  # Used all the time.
    kept = [number for number in range(6) if own.place(named(digest_of(number))).exists()]
    assert kept == [0, 3, 4, 5]
