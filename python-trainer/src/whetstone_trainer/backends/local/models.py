# SPDX-License-Identifier: Apache-2.0
"""How the models of a job come into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.local.critic import Critic, LocalCritic
from whetstone_trainer.backends.local.lora import Adapter
from whetstone_trainer.backends.local.policy import Policy, WithBody, load_policy
from whetstone_trainer.backends.local.ranks import Ranks
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.settings import Sharding, TrainSettings


class Models(Protocol):
    """Of one process, which shares them with the other ranks."""

    @property
    def device(self) -> torch.device: ...

    @property
    def ranks(self) -> Ranks: ...

    def arrange(self, sharding: Sharding) -> None:
        """How models that are loaded from now on are held, and `ranks` compute. Raises SettingsError if they cannot."""
        ...

    def policy(self, folder: Path, on_bytes: OnBytes = unheard) -> Policy:
        """With float32 weights. Raises ModelError if it cannot be trained, TrainerError for weights not finite."""
        ...

    def critic(self, folder: Path, settings: jobs.Critic, on_bytes: OnBytes = unheard) -> Critic:
        """With the folder's weights and a head that is 0. Raises as `policy`."""
        ...

    def adapt(self, policy: Policy, settings: TrainSettings, folder: Path) -> None:
        """Gives a policy that was loaded from `folder` the job's adapter. Raises SettingsError if it cannot have it."""
        ...


class LocalModels:
    """All of this process alone, on a CPU or one GPU."""

    ranks = Ranks()

    def __init__(self, device: torch.device, compute: torch.dtype) -> None:
        """`compute`: the type of matrix products."""
        self.device, self._compute = device, compute

    def arrange(self, sharding: Sharding) -> None:
        refuse_sharding(sharding)

    def policy(self, folder: Path, on_bytes: OnBytes = unheard) -> WithBody:
        return load_policy(folder, self._compute, self.device, on_bytes)

    def critic(self, folder: Path, settings: jobs.Critic, on_bytes: OnBytes = unheard) -> Critic:
        return LocalCritic(self.policy(folder, on_bytes), settings)

    def adapt(self, policy: Policy, settings: TrainSettings, folder: Path) -> None:
        assert settings.lora is not None, "the job asks for one"
        body = cast(WithBody, policy).body
        policy.adapter = Adapter(policy.module, body, settings.lora, settings.seed, folder)


def refuse_sharding(sharding: Sharding) -> None:
    """By the backend local. Raises SettingsError for anything but the defaults."""
    for setting, is_asked in (("sequenceParallel", sharding.sequence_parallel > 1), ("offload", sharding.offload)):
        if is_asked:
            why = "the backend local does not do it; leave it out, or start the trainer with --backend verl"
            raise SettingsError(f"sharding.{setting}", why)
