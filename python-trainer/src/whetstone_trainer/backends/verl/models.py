# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""The models of one rank: verl's engines behind what the learner asks of a policy and of a critic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import ConfigError, WeightsError
from whetstone_models.folder import AS_THEY_ARE, WeightsForm, save_weights, weight_files
from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.local.critic import Critic
from whetstone_trainer.backends.local.lora import Adapter
from whetstone_trainer.backends.local.micro_batches import MicroBatch, micro_batches
from whetstone_trainer.backends.local.policy import UNUSABLE, Policy, require_finite
from whetstone_trainer.backends.local.ranks import Ranks, copy_whole, whole_tensors
from whetstone_trainer.backends.local.scoring import predict_logits, score_logits
from whetstone_trainer.backends.verl.engine import PolicyEngine, ValueEngine, start_engine
from whetstone_trainer.backends.verl.sequence_parallel import TOGETHER
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.settings import Sharding, TrainSettings


class EnginePolicy:
    """A policy that an engine computes: sequences are packed one after the other, prompts are not shared."""

    notices: Sequence[wire.Notice] = ()

    def __init__(self, engine: PolicyEngine, device: torch.device, ranks: Ranks) -> None:
        self._engine, self._device, self._ranks = engine, device, ranks
        self.adapter: Adapter | None = None
        self._config = engine.model_config.hf_config.get_text_config()

    @property
    def module(self) -> torch.nn.Module:
        return self._engine.module

    @property
    def vocab_size(self) -> int:
        return self._config.vocab_size

    @property
    def context(self) -> int:
        return self._config.max_position_embeddings

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return micro_batches(rows, token_budget, self._device, packed=False)

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        def scored(logits_MV: Tensor, own: MicroBatch) -> Tensor:
            return torch.stack(score_logits(logits_MV, own, 0, entropy_gradient), dim=1)

        logprobs_M, entropies_M = self._engine.of_predictors(batch, scored).unbind(1)
        return logprobs_M, entropies_M if entropy_gradient else entropies_M.detach()

    def predict(self, batch: MicroBatch) -> Tensor:
        return self._engine.of_predictors(
            batch, lambda logits_MV, own: predict_logits(logits_MV, own.targets_M, own.temperatures_M)
        )

    def frozen(self) -> None:
        """Its folder is read when it is asked for, sharded like the present one."""

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        read_sharded(self.module, directory, on_bytes, self._config.tie_word_embeddings)

    def keep_finer(self, directory: Path) -> None:
        """It is published as it is, so that nothing is finer."""
        self.read(directory)

    def write(self, directory: Path, version: int, source: Path, form: WeightsForm = AS_THEY_ARE) -> None:
        """By the first rank; all must call."""
        tensors = whole_tensors(self.module, self._ranks)
        if self._ranks.index == 0:
            save_weights(tensors, directory, version, source, form)
        # Nobody goes on before it is there.
        self._ranks.joined({})


class EngineCritic(Critic):
    """The value function, by an engine."""

    def __init__(self, engine: PolicyEngine, settings: jobs.Critic, device: torch.device, ranks: Ranks) -> None:
        self._engine, self._device = engine, device
        vocab_size = engine.model_config.hf_config.get_text_config().vocab_size
        super().__init__(engine.module, settings, ranks, vocab_size)

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return micro_batches(rows, token_budget, self._device, packed=False)

    def values(self, micro: MicroBatch) -> Tensor:
        return self._engine.of_predictors(micro, lambda values_M1, _: values_M1.squeeze(1))


class EngineModels:
    """All ranks call the same methods in the same order."""

    def __init__(self, device: torch.device, compute: torch.dtype, ranks: Ranks) -> None:
        self.device, self.ranks, self._compute = device, ranks, compute
        self._sharding = Sharding()

    def arrange(self, sharding: Sharding) -> None:
        together = sharding.sequence_parallel
        if self.ranks.count % together:
            raise SettingsError(TOGETHER, f"is {together} and must divide the trainer's {self.ranks.count} ranks")
        if sharding.offload and self.device.type == "cpu":
            why = "the ranks have no GPU: all they hold is in the host's memory already; leave it out"
            raise SettingsError("sharding.offload", why)
        self.ranks, self._sharding = replace(self.ranks, together=together), sharding

    def policy(self, folder: Path, on_bytes: OnBytes = unheard) -> Policy:
        policy = EnginePolicy(self._start(PolicyEngine, folder), self.device, self.ranks)
        # Once more by us: what the engine cannot find it would fill with random numbers.
        policy.read(folder, on_bytes)
        require_finite(policy.module, str(folder), UNUSABLE)
        return policy

    def critic(self, folder: Path, settings: jobs.Critic, on_bytes: OnBytes = unheard) -> Critic:
        return EngineCritic(self._start(ValueEngine, folder), settings, self.device, self.ranks)

    def adapt(self, policy: Policy, settings: TrainSettings, folder: Path) -> None:
        raise SettingsError("model.lora", "the backend verl trains all weights; leave it out, or use the backend local")

    def _start(self, kind: type[PolicyEngine], folder: Path) -> PolicyEngine:
        try:
            return start_engine(kind, folder, self._compute, self._sharding)
        except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
            raise ConfigError("config.json", f"verl cannot load {folder}: {error}") from error


def read_sharded(module: torch.nn.Module, directory: Path, on_bytes: OnBytes, tied: bool) -> None:
    """Each rank takes its part of each tensor. Raises ModelError, before anything is changed, for names or shapes."""
    parameters: dict[str, Any] = dict(module.named_parameters())
    try:
        files = {name: file for file in weight_files(directory) for name in _names(file)}
        if tied:
            files.pop("lm_head.weight", None)
        for name in sorted(files.keys() ^ parameters.keys()):
            raise WeightsError(name, f"is {'not in the model' if name in files else f'missing from {directory}'}")
        for name, file in files.items():
            with safe_open(file, framework="pt") as opened:
                found, expected = list(opened.get_slice(name).get_shape()), list(parameters[name].shape)
            if found != expected:
                raise WeightsError(name, f"has shape {found}, expected {expected}")
        for name, file in files.items():
            with safe_open(file, framework="pt") as opened:
                tensor = opened.get_tensor(name)
                copy_whole(parameters[name], tensor)
                on_bytes(tensor.nbytes)
    except (SafetensorError, OSError) as error:
        raise WeightsError("model.safetensors", f"cannot be read in {directory}: {error}") from error


def _names(file: Path) -> list[str]:
    with safe_open(file, framework="pt") as opened:
        return list(opened.keys())
