# SPDX-License-Identifier: Apache-2.0
"""Episodes whose bodies are in an object store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest
from object_server import ObjectServer, open_store
from stored_kit import running
from trainer_client import Trainer
from trainer_kit import Sampler, Stream, group, grpo_spec, manifest_of
from whetstone.events.v1 import events_pb2 as events
from whetstone.types.v1 import types_pb2 as types

STORE = "s3://bucket/team"


async def put_away(stream: Stream, episodes: Sequence[types.Episode], store: str = STORE) -> list[events.BatchEntry]:
    """Published as orchestrators do it: empty messages that say where the bodies are."""
    entries = []
    for episode in episodes:
        body = episode.SerializeToString()
        sha256 = hashlib.sha256(body).hexdigest()
        name = f"episodes/here/{episode.job}/{sha256}"
        open_store().put(name, body)
        claim = {"name": name, "sha256": sha256, "size": len(body), "store": store}
        entries.append(await stream.publish(episode, body=b"", headers={"Whetstone-Claim": json.dumps(claim)}))
    return entries


def file_of(objects: ObjectServer, episode: types.Episode) -> Path:
    return objects.file(f"episodes/here/{episode.job}/{hashlib.sha256(episode.SerializeToString()).hexdigest()}")


async def test_bodies_in_the_store_are_trained_and_those_gone_or_damaged_are_dropped(
    objects: ObjectServer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str, tmp_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(grpo_spec(model_path, max_policy_lag=1))
        assert (await trainer.train(manifest_of(0, await put_away(stream, group(sampler))))).rows == 4

        episodes = group(sampler, 1)
        entries = await put_away(stream, episodes)
        gone, damaged = file_of(objects, episodes[0]), file_of(objects, episodes[1])
        gone.unlink()
        content = damaged.read_bytes()
        damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        result = await trainer.train(manifest_of(1, entries))
        assert result.rows == 2
        reasons = {one.episode_id: one.reason for one in result.dropped}
        assert set(reasons) == {episodes[0].id, episodes[1].id}


async def test_a_store_that_is_away_is_told_and_costs_no_episode(
    objects: ObjectServer, stream: Stream, sampler: Sampler, model_path: Path, nats_url: str, tmp_path: Path
) -> None:
    async with running(nats_url, tmp_path / "run") as trainer:
        await trainer.configure(grpo_spec(model_path))
        manifest = manifest_of(0, await put_away(stream, group(sampler)))
        objects.stop()
        with pytest.raises(grpc.aio.AioRpcError, match=f"the object store fails: {STORE}/episodes/here/") as refused:
            await trainer.train(manifest)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        objects.start()
        assert (await trainer.train(manifest)).rows == 4


@pytest.mark.parametrize("store", [STORE, "s3://other/team"])
async def test_a_trainer_without_the_store_says_which_one_it_needs(
    store: str,
    objects: ObjectServer,
    trainer: Trainer,
    stream: Stream,
    sampler: Sampler,
    model_path: Path,
    nats_url: str,
    tmp_path: Path,
) -> None:
    manifest = manifest_of(0, await put_away(stream, group(sampler), store))
    async with running(nats_url, tmp_path / "other") as with_store:
        one, own = (trainer, "none") if store == STORE else (with_store, STORE)
        await one.configure(grpo_spec(model_path))
        with pytest.raises(grpc.aio.AioRpcError, match=f"object store is {own}: .*--object-store {store}") as refused:
            await one.train(manifest)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
