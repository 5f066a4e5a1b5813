# SPDX-License-Identifier: Apache-2.0
"""Runs in an object store as whoever does not train them sees them: what is there, and its end. Blocking."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.manifest import MANIFEST
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.weights.checkpoint import STATE

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore, StoredObject

# Says which process writes a run.
WRITER = "writer.json"
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
# A writer that was at work ends at its next look at who writes.
_MOST_PASSES = 5


def is_uid(text: str) -> bool:
    """A text that is no folder of its own would be another run's, or every run's."""
    return _UID.fullmatch(text) is not None


def folder_of(job_uid: str) -> str:
    return f"runs/{job_uid}"


def numbered(objects: Iterable[StoredObject], start: str, last: str) -> dict[int, StoredObject]:
    """By N, ascending, every "<start><N>/<last>" among them."""
    found: dict[int, StoredObject] = {}
    for one in objects:
        number, _, file = one.name.removeprefix(start).partition("/")
        if one.name.startswith(start) and file == last and number.isdecimal():
            found[int(number)] = one
    return dict(sorted(found.items()))


def describe_run(store: ObjectStore, job_uid: str, with_state: bool = False) -> wire.GetStoredRunResponse:
    """What is there of a run. Raises StoreError."""
    base = folder_of(job_uid)
    objects = list(store.listed(base))
    states = numbered(objects, f"{base}/checkpoints/step-", STATE)
    newest = list(states.values())[-1].name if with_state and states else None
    return wire.GetStoredRunResponse(
        checkpoints=[_checkpoint(f"{store.url}/{base}", step, states[step]) for step in reversed(states)],
        versions=len(numbered(objects, f"{base}/weights/v", MANIFEST)),
        objects=len(objects),
        bytes=sum(one.size for one in objects),
        state=store.read(newest) if newest is not None else None,
    )


def delete_run(store: ObjectStore, job_uid: str) -> None:
    """All of a run; whoever still writes it stops. Raises StoreError, or TrainerError where objects go on coming.

    What lists others goes before them, so that at no moment a checkpoint or a version is there that is not whole.
    """
    base = folder_of(job_uid)
    store.delete([f"{base}/{WRITER}"])
    for _ in range(_MOST_PASSES):
        store.drop_unfinished(base)
        names = [one.name for one in store.listed(base)]
        if not names:
            return
        store.delete(sorted(names, key=lambda name: not name.endswith((STATE, MANIFEST))))
    where = f"{store.url}/{base}"
    raise TrainerError("UNAVAILABLE", f"{where}: somebody goes on writing it; stop that trainer, then repeat")


def _checkpoint(where: str, step: int, state: StoredObject) -> jobs.Checkpoint:
    """Its version is its step."""
    written_at = Timestamp()
    written_at.FromDatetime(state.written_at)
    return jobs.Checkpoint(
        step=step,
        policy_version=step,
        path=f"{where}/checkpoints/step-{step}",
        model_path=f"{where}/weights/v{step}",
        created_at=written_at,
    )
