# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_trainer.retrain`: does steps of a job again and compares the weights with what was published.

From ledger, sealed episodes and a checkpoint, in a folder of its own that shares the checkpoint's files by hard links.
Exit status: 0 the same bit for bit, 1 different, 2 it cannot be done, as the last line of standard error says.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import nats.errors
import torch
from nats.aio.client import Client
from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.errors import ModelError
from whetstone_store.location import add_store_options, store_of
from whetstone_tls import TlsIdentity
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backend_options import add_backend_options, make_backend
from whetstone_trainer.backends.protocol import TrainerBackend
from whetstone_trainer.batch.ingest import EpisodeReader, parse_manifest
from whetstone_trainer.contract.errors import TrainerError
from whetstone_trainer.contract.settings import parse_settings
from whetstone_trainer.service.nats_security import nats_security
from whetstone_trainer.service.run import JobRun
from whetstone_trainer.service.step import StepRequest
from whetstone_trainer.weights.run_folder import RunFolder, manifest_digest

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

# As in services/libs/messaging/src/topology.ts.
JOBS, LEDGER = "ws-jobs", "ws-ledger"


class CannotRetrain(Exception):
    """`field`: the argument or the job that it is about."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True)
class Span:
    """Versions of a job: from the checkpoint of `first` steps to version `last`."""

    job: str
    first: int
    last: int


async def retrain(
    client: Client, runs: Path, span: Span, backend: TrainerBackend, store: ObjectStore | None = None
) -> list[dict[str, Any]]:
    """Each version that was made again: its digest now, and the published one as its step's record has it.

    Records of earlier releases have none: then that of the folder, if it is still there.

    Ends at the first that differs. Raises CannotRetrain.
    """
    job = await _job(client, span.job)
    settings = parse_settings(with_folders(job.spec, runs.parent))
    published = RunFolder(runs / job.uid, Path(settings.model_path).absolute())
    ledger, reader = await client.jetstream().key_value(LEDGER), EpisodeReader(client, store)
    _require_checkpoint(published, span, await _published(ledger, span.job, published, span.last))
    with tempfile.TemporaryDirectory(prefix=".retrain-", dir=runs) as folder:
        own = RunFolder(Path(folder), published.model_path)
        _share(published, own, span.first, settings.max_policy_lag)
        run = JobRun(settings, own, job.uid, backend, modules=ModuleRules(is_allowed=True))
        found = []
        for step in range(span.first, span.last):
            weights = run.train(await _request(reader, ledger, span, step), lambda *_: None).weights
            before = await _published(ledger, span.job, published, step + 1)
            found.append({"version": step + 1, "published": before, "retrained": weights.manifest_digest})
            if before not in (None, weights.manifest_digest):
                break
    return found


async def _job(client: Client, name: str) -> jobs.Job:
    bytes_ = await _value(await client.jetstream().key_value(JOBS), name)
    if bytes_ is None:
        raise CannotRetrain(name, "no such job; `whet jobs ls` lists them")
    return jobs.Job.FromString(bytes_)


# As in services/libs/core/src/artifacts.ts.
ARTIFACT = re.compile(r"artifact://[^/]+/[^/@]+@sha256:([0-9a-f]{64})")


def with_folders(spec: jobs.JobSpec, data: Path) -> jobs.JobSpec:
    """The spec with folders in place of the artifacts that it names as models."""

    def folder(path: str) -> str:
        found = ARTIFACT.fullmatch(path)
        return str(data / "artifacts" / "sha256" / found[1] / "files") if found else path

    resolved = jobs.JobSpec.FromString(spec.SerializeToString())
    resolved.model.path = folder(spec.model.path)
    if spec.algorithm.HasField("dpo"):
        resolved.algorithm.dpo.reference = folder(spec.algorithm.dpo.reference)
    if spec.algorithm.HasField("policy_gradient"):
        for part in ("kl", "critic"):
            if spec.algorithm.policy_gradient.HasField(part):
                of = getattr(resolved.algorithm.policy_gradient, part)
                of.model = folder(of.model)
    return resolved


async def _value(bucket: KeyValue, key: str) -> bytes | None:
    try:
        return (await bucket.get(key)).value
    except NotFoundError:
        return None


async def _record(ledger: KeyValue, job: str, step: int) -> jobs.StepRecord:
    return jobs.StepRecord.FromString(await _value(ledger, f"{job}.step.{step}") or b"")


async def _published(ledger: KeyValue, job: str, folder: RunFolder, version: int) -> str | None:
    """Digest of a version when it was made. None: nothing says it any more."""
    recorded = (await _record(ledger, job, version - 1)).weights_digest if version > 0 else ""
    if recorded:
        return recorded
    weights = folder.weights(version)
    return manifest_digest(weights) if weights.is_dir() else None


def _require_checkpoint(published: RunFolder, span: Span, last_digest: str | None) -> None:
    steps = [0, *published.steps()]
    kept = sorted(int(path.name[1:]) for path in published.root.glob("weights/v*"))
    if span.first not in steps:
        listed = ", ".join(map(str, steps))
        raise CannotRetrain("--from", f"there is no checkpoint of {span.first} steps; there are those of {listed}")
    if span.last <= span.first:
        raise CannotRetrain("--to", f"must be above --from, which is {span.first}")
    if last_digest is None:
        listed = ", ".join(map(str, kept)) or "none"
        raise CannotRetrain(
            "--to", f"version {span.last} is not there to be compared with; there are {listed} (loop.checkpointsKept)"
        )


def _share(published: RunFolder, own: RunFolder, step: int, max_policy_lag: int) -> None:
    """The checkpoint, and the weights that its step's tokens may be labelled with: hard links, which cost nothing."""
    folders = [published.checkpoint(step)] if step else []
    folders += [published.weights(version) for version in range(max(1, step - max_policy_lag), step + 1)]
    for folder in filter(Path.is_dir, folders):
        shutil.copytree(folder, own.root / folder.relative_to(published.root), copy_function=os.link)


async def _request(reader: EpisodeReader, ledger: KeyValue, span: Span, step: int) -> StepRequest:
    """The step as it was asked for, with what it dropped then. Raises CannotRetrain for what is gone of it."""
    payload = await _value(ledger, f"{span.job}.batch.{step}")
    if payload is None:
        raise CannotRetrain(span.job, f"the ledger has no manifest of step {step}; {_possible(span, step)}")
    record = await _record(ledger, span.job, step)
    manifest, dropped = parse_manifest(payload), {one.episode_id for one in record.dropped}
    bodies = await reader.read(manifest.job, manifest.entries, lambda _: None)
    for entry, body in zip(manifest.entries, bodies, strict=True):
        if isinstance(body, TrainerError) and entry.episode_id not in dropped:
            raise CannotRetrain(span.job, f"an episode of step {step} is gone: {body}; {_possible(span, step)}")
    return StepRequest(manifest, hashlib.sha256(payload).hexdigest(), bodies, 0.0, list(record.dropped))


def _possible(span: Span, step: int) -> str:
    return f"up to --to {step} it can be retrained" if step > span.first else "take a later checkpoint as --from"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m whetstone_trainer.retrain", description=__doc__)
    parser.add_argument("job")
    parser.add_argument("--from", dest="first", type=int, required=True, help="steps done when it begins")
    parser.add_argument("--to", dest="last", type=int, required=True, help="version that it ends with")
    parser.add_argument("--nats", required=True)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the run folders")
    # As the job's trainer had them.
    add_backend_options(parser)
    add_store_options(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    backend = make_backend(arguments, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        versions = asyncio.run(_connected(arguments, backend))
    except (CannotRetrain, TrainerError, ModelError, OSError, nats.errors.Error) as error:
        field = error.field if isinstance(error, CannotRetrain) else arguments.job
        reason = error.reason if isinstance(error, CannotRetrain) else str(error) or repr(error)
        sys.stderr.write(json.dumps({"error": {"field": field, "reason": reason}}) + "\n")
        sys.exit(2)
    finally:
        backend.close()
    same = all(one["published"] in (None, one["retrained"]) for one in versions)
    print(json.dumps({"job": arguments.job, "from": arguments.first, "versions": versions, "same": same}))
    sys.exit(0 if same else 1)


async def _connected(arguments: argparse.Namespace, backend: TrainerBackend) -> list[dict[str, Any]]:
    """With WHETSTONE_TLS_PATH, in a cluster, as a client: that role may read everything."""
    folder = os.environ.get("WHETSTONE_TLS_PATH")
    security = nats_security("client", TlsIdentity(folder) if folder else None)
    client = await nats.connect(arguments.nats, connect_timeout=5, max_reconnect_attempts=1, **security)
    try:
        span = Span(arguments.job, arguments.first, arguments.last)
        return await retrain(client, arguments.runs, span, backend, store_of(arguments))
    finally:
        await client.close()


if __name__ == "__main__":
    main()
