# SPDX-License-Identifier: Apache-2.0
"""Reads sealed episodes from a job's EPISODE stream by sequence, in order of the manifest, and checks every byte.

Reads are direct gets, many in flight on one subscription: a batch of 512 is one round trip's wait, not 512.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import nats.errors
from google.protobuf.message import DecodeError
from nats.aio.client import Client
from nats.aio.msg import Msg
from whetstone.events.v1 import events_pb2 as events
from whetstone.types.v1 import types_pb2 as types

from whetstone_store.errors import StoreError
from whetstone_trainer.batch.claims import ASK_AGAIN_S, CLAIM_HEADER, ClaimedBodies
from whetstone_trainer.contract.errors import ContractError, TrainerError

# Bodies up to 512 KiB travel in the message, so this many in flight are at most 32 MiB.
WINDOW = 64
REPLY_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
# Any server of a cluster answers a direct get, also one that is behind: only what stays away for so long is gone.
BEHIND_S = 15.0
# Bodies that are elsewhere: so many are asked for at once.
CLAIMS_AT_ONCE = 8

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore


def episode_stream(job: str) -> str:
    """services/libs/messaging/src/topology.ts names it."""
    return f"WS_EPISODE_{job}"


class EpisodeReader:
    """Direct gets over one NATS connection, which the caller owns; large bodies from where they are."""

    def __init__(self, client: Client, store: ObjectStore | None = None) -> None:
        self._client, self._claims = client, ClaimedBodies(client, store)

    async def read(
        self, job: str, entries: Sequence[events.BatchEntry], on_share: Callable[[float], None]
    ) -> list[bytes | TrainerError]:
        """Bodies in the order of `entries`, digests checked; for one that is gone or differs, what is wrong with it.

        Raises TrainerError UNAVAILABLE: NATS is away, or the object store that has a body.
        """
        await self._connected()
        try:
            messages = await self._fetch(episode_stream(job), [entry.sequence for entry in entries], on_share)
            deadline = time.monotonic() + BEHIND_S
            return await self._all_readable([(messages[entry.sequence], entry) for entry in entries], deadline)
        except StoreError as error:
            raise TrainerError(
                "UNAVAILABLE", f"the object store fails: {error}", reason="ObjectStoreFailing"
            ) from error
        except (nats.errors.Error, TimeoutError) as error:
            raise TrainerError("UNAVAILABLE", f"reading episodes of {job} from NATS failed: {error!r}") from error

    async def _fetch(
        self, stream: str, sequences: Sequence[int], on_share: Callable[[float], None]
    ) -> dict[int, Msg | TrainerError]:
        found: dict[int, Msg | TrainerError] = {}
        deadline = time.monotonic() + BEHIND_S
        while True:
            missing = [sequence for sequence in sequences if sequence not in found]
            found |= await _Fetch(self._client, stream, on_share).run(missing)
            if len(found) >= len(set(sequences)):
                return found
            if time.monotonic() > deadline:
                lost = [sequence for sequence in missing if sequence not in found]
                return found | {
                    one: TrainerError("DATA_LOSS", f"{stream} sequence {one}: no such message") for one in lost
                }
            await asyncio.sleep(ASK_AGAIN_S)

    async def _connected(self) -> None:
        """A process that has just started, or a server that has: worth a short wait."""
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while not self._client.is_connected:
            if time.monotonic() > deadline:
                raise TrainerError("UNAVAILABLE", "not connected to NATS; it is retried, repeat the call")
            await asyncio.sleep(0.02)

    async def _all_readable(
        self, pairs: Sequence[tuple[Msg | TrainerError, events.BatchEntry]], deadline: float
    ) -> list[bytes | TrainerError]:
        free = asyncio.Semaphore(CLAIMS_AT_ONCE)

        async def one(message: Msg | TrainerError, entry: events.BatchEntry) -> bytes | TrainerError:
            async with free:
                return await self._readable(message, entry, deadline)

        tasks = [asyncio.create_task(one(*pair)) for pair in pairs]
        try:
            return await asyncio.gather(*tasks)
        finally:
            # Where one has failed, the others have nobody who waits for them.
            for task in tasks:
                task.cancel()

    async def _readable(
        self, message: Msg | TrainerError, entry: events.BatchEntry, deadline: float
    ) -> bytes | TrainerError:
        try:
            return message if isinstance(message, TrainerError) else await self._body(message, entry, deadline)
        except TrainerError as error:
            return error

    async def _body(self, message: Msg, entry: events.BatchEntry, deadline: float) -> bytes:
        claim = (message.headers or {}).get(CLAIM_HEADER)
        body = message.data if claim is None else await self._claims.read(claim, entry.episode_id, deadline)
        digest = hashlib.sha256(body).hexdigest()
        if digest != entry.digest:
            raise TrainerError(
                "DATA_LOSS",
                f"{entry.episode_id} (sequence {entry.sequence}): digest {digest}, the manifest says {entry.digest}",
            )
        return body


class _Fetch:
    """One pipelined read: requests go out while replies come in, at most WINDOW unanswered."""

    def __init__(self, client: Client, stream: str, on_share: Callable[[float], None]) -> None:
        self._client, self._stream, self._on_share = client, stream, on_share
        self._subject = f"$JS.API.DIRECT.GET.{stream}"
        self._inbox = client.new_inbox()
        self._replies: dict[int, Msg] = {}
        self._window = asyncio.Semaphore(WINDOW)
        self._done = asyncio.Event()

    async def run(self, sequences: Sequence[int]) -> dict[int, Msg | TrainerError]:
        """Messages by sequence, those left out that the server which answered does not have; errors of single ones."""
        if not sequences:
            return {}
        wanted = len(sequences)

        async def on_reply(message: Msg) -> None:
            self._replies[int(message.subject.rpartition(".")[2])] = message
            self._window.release()
            if len(self._replies) == wanted:
                self._done.set()

        subscription = await self._client.subscribe(f"{self._inbox}.*", cb=on_reply)
        try:
            for index, sequence in enumerate(sequences):
                await asyncio.wait_for(self._window.acquire(), REPLY_TIMEOUT_S)
                if index % WINDOW == 0:
                    self._on_share(len(self._replies) / wanted)
                await self._client.publish(self._subject, b'{"seq":%d}' % sequence, f"{self._inbox}.{index}")
            await asyncio.wait_for(self._done.wait(), REPLY_TIMEOUT_S)
        finally:
            await subscription.unsubscribe()
        checked = {sequence: self._checked(self._replies[index], sequence) for index, sequence in enumerate(sequences)}
        return {sequence: message for sequence, message in checked.items() if message is not None}

    def _checked(self, message: Msg, sequence: int) -> Msg | TrainerError | None:
        """Replies of errors carry a status: 404 that server does not have it, 503 nobody serves the stream."""
        headers = message.headers or {}
        status = headers.get("Status")
        if status == "503":
            raise TrainerError("UNAVAILABLE", f"stream {self._stream} does not answer direct gets; is it there?")
        if status == "404":
            return None
        if status is not None:
            description = headers.get("Description", "")
            return TrainerError("DATA_LOSS", f"{self._stream} sequence {sequence}: {status} {description}")
        if headers.get("Nats-Sequence") != str(sequence):
            return ContractError(f"{self._stream}: asked for {sequence}, got {headers.get('Nats-Sequence')}")
        return message


def parse_episode(job: str, entry: events.BatchEntry, body: bytes, mask_deadline: bool) -> types.Episode:
    """The episode that the entry names. Raises ContractError."""
    try:
        episode = types.Episode.FromString(body)
    except DecodeError as error:
        raise ContractError(f"{entry.episode_id}: the body is not an Episode: {error}") from error
    if (episode.id, episode.job) != (entry.episode_id, job):
        raise ContractError(f"sequence {entry.sequence}: holds {episode.id} of {episode.job}, not {entry.episode_id}")
    if episode.reward != entry.reward and not (math.isnan(episode.reward) and math.isnan(entry.reward)):
        raise ContractError(f"{episode.id}: reward {episode.reward}, the manifest says {entry.reward}")
    if episode.purpose not in (types.PURPOSE_TRAIN, types.PURPOSE_DEMONSTRATION):
        raise ContractError(f"{episode.id}: purpose {types.Purpose.Name(episode.purpose)} is never trained")
    if mask_deadline and episode.termination_reason == types.TERMINATION_REASON_DEADLINE:
        episode.masked = True
    return episode


def parse_manifest(payload: bytes) -> events.BatchManifest:
    """The manifest of a TrainStep call. Raises ContractError; an id listed twice would be trained twice (I1)."""
    try:
        manifest = events.BatchManifest.FromString(payload)
    except DecodeError as error:
        raise ContractError(f"manifest: not a BatchManifest: {error}") from error
    listed = [*manifest.entries, *manifest.baselines]
    if len({entry.episode_id for entry in listed}) != len(listed):
        raise ContractError(f"manifest of step {manifest.step}: an episode is listed twice (I1)")
    return manifest
