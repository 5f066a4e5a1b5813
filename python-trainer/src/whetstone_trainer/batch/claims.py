# SPDX-License-Identifier: Apache-2.0
"""Bodies that were too large for their messages: in NATS' object bucket, or in an object store that speaks S3."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import TYPE_CHECKING, NamedTuple

import nats.js.errors
from nats.aio.client import Client

from whetstone_store.errors import StoreError
from whetstone_trainer.contract.errors import ContractError, TrainerError

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

# As in services/libs/messaging/src/claims/claim.ts.
CLAIM_HEADER, CLAIMS_BUCKET = "Whetstone-Claim", "ws-claims"
ASK_AGAIN_S = 0.3


class Claim(NamedTuple):
    """What the header says."""

    name: str
    sha256: str
    size: int
    # "s3://bucket/prefix"; empty: NATS' bucket.
    store: str

    @property
    def where(self) -> str:
        return f"{self.store}/{self.name}" if self.store else f"{self.name} in object bucket {CLAIMS_BUCKET}"


def parse_claim(header: str, episode_id: str) -> Claim:
    """Raises ContractError."""
    try:
        claim = json.loads(header)
        return Claim(str(claim["name"]), str(claim["sha256"]), int(claim["size"]), str(claim.get("store", "")))
    except (ValueError, KeyError, TypeError) as error:
        raise ContractError(f"{episode_id}: header {CLAIM_HEADER} is not a claim: {error!r}") from error


class ClaimedBodies:
    """Reads each from where its claim says that it is."""

    def __init__(self, client: Client, store: ObjectStore | None = None) -> None:
        self._client, self._store = client, store

    async def read(self, header: str, episode_id: str, deadline: float) -> bytes:
        """`deadline`: when what NATS does not have counts as gone.

        Raises TrainerError for a body that is gone or another one, StoreError for a store that fails or is not ours.
        """
        claim = parse_claim(header, episode_id)
        body = await (self._stored(claim) if claim.store else self._in_bucket(claim.name, deadline))
        if body is None:
            raise TrainerError("DATA_LOSS", f"{episode_id}: {claim.where} is not there")
        if len(body) != claim.size or hashlib.sha256(body).hexdigest() != claim.sha256:
            raise TrainerError("DATA_LOSS", f"{episode_id}: {claim.where} is not as claimed")
        return body

    async def _stored(self, claim: Claim) -> bytes | None:
        if self._store is None or self._store.url != claim.store:
            own = self._store.url if self._store else "none"
            raise StoreError(
                f"{claim.where} is the body of an episode, and the trainer's object store is {own}: start it with "
                f"--object-store {claim.store}"
            )
        try:
            return await asyncio.to_thread(self._store.read, claim.name)
        except StoreError as error:
            if not error.is_damage:
                raise
            raise TrainerError("DATA_LOSS", f"{claim.where} is damaged: {error}") from error

    async def _in_bucket(self, name: str, deadline: float) -> bytes | None:
        while True:
            try:
                store = await self._client.jetstream().object_store(CLAIMS_BUCKET)
                return (await store.get(name)).data or b""
            except nats.js.errors.NotFoundError:
                if time.monotonic() > deadline:
                    return None
                await asyncio.sleep(ASK_AGAIN_S)
