# SPDX-License-Identifier: Apache-2.0
"""Our transformer, sharded over the ranks by FSDP2: layer by layer, and the rest as one part.

Modules of the transformer call each other's `forward` directly, past the hooks with which FSDP gathers weights. So a
layer's `forward` is registered as what needs them, and a whole computation, logits included, is one pass of its root.
Source: PyTorch `torch.distributed.fsdp.fully_shard`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.utils._pytree import tree_map_only
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.config import read_config
from whetstone_models.errors import ConfigError, UnsupportedModelError
from whetstone_models.folder import AS_THEY_ARE, WeightsForm, check_weights, save_weights, write_bare
from whetstone_models.reading import OnBytes, unheard
from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.critic import Critic, zero_head
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.models import refuse_sharding
from whetstone_trainer.backends.local.policy import UNUSABLE, Policy, TransformerPolicy, require_finite
from whetstone_trainer.backends.local.ranks import Ranks, copy_whole, own_shard, whole_tensors
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.contract.settings import Sharding, TrainSettings

T = TypeVar("T")


class _Pass(nn.Module):
    """The root of what is sharded: work that needs its weights goes through it."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, work: Callable[[], T]) -> T:
        """What `work` gives, a tensor or some of them, which are not views: FSDP hangs the pass back on them."""
        return tree_map_only(Tensor, Tensor.clone, work())


class ShardedPolicy(TransformerPolicy):
    """A policy whose every tensor has a part on each rank. All ranks must call the same in the same order."""

    def __init__(self, module: Transformer, compute: torch.dtype, ranks: Ranks, root: nn.Module) -> None:
        super().__init__(module, compute)
        self._root, self._ranks = root, ranks

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        return self._root(lambda: super(ShardedPolicy, self).score(batch, entropy_gradient))

    def predict(self, batch: MicroBatch) -> Tensor:
        return self._root(lambda: super(ShardedPolicy, self).predict(batch))

    def frozen(self) -> NoReturn:
        raise AssertionError("only an adapter is copied, and several ranks have none")

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        read_sharded(self.module, directory, on_bytes)

    def keep_finer(self, directory: Path) -> None:
        read_sharded(self.module, directory, keep_finer=True)

    def write_bare(self, directory: Path) -> None:
        tensors = whole_tensors(self.module, self._ranks)
        if self._ranks.index == 0:
            write_bare(tensors, directory)
        self._ranks.joined({})

    def write(self, directory: Path, version: int, source: Path, form: WeightsForm = AS_THEY_ARE) -> None:
        """By the first rank."""
        tensors = whole_tensors(self.module, self._ranks)
        if self._ranks.index == 0:
            save_weights(tensors, directory, version, source, form)
        # Nobody goes on before it is there.
        self._ranks.joined({})


class ShardedCritic(Critic):
    """The value function: a transformer's body and a head."""

    def __init__(self, policy: ShardedPolicy, head: nn.Linear, settings: jobs.Critic, ranks: Ranks, root: nn.Module):
        self._policy, self._head, self._root = policy, head, root
        module = nn.ModuleDict({"model": policy.body, "value_head": head})
        super().__init__(module, settings, ranks, policy.vocab_size)

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return self._policy.cut(rows, token_budget)

    def values(self, micro: MicroBatch) -> Tensor:
        return self._root(lambda: self._head(self._policy.hidden(micro).float()).squeeze(1))


class ShardedModels:
    """All ranks call the same methods in the same order."""

    def __init__(self, device: torch.device, compute: torch.dtype, ranks: Ranks) -> None:
        """`compute`: the type of matrix products."""
        self.device, self.ranks, self._compute = device, ranks, compute
        self._mesh = DeviceMesh(device.type, list(range(ranks.count)))

    def arrange(self, sharding: Sharding) -> None:
        refuse_sharding(sharding)

    def policy(self, folder: Path, on_bytes: OnBytes = unheard) -> Policy:
        module = self._empty(folder)
        return self._filled(module, self._sharded(module, _Pass(transformer=module)), folder, on_bytes)

    def critic(self, folder: Path, settings: jobs.Critic, on_bytes: OnBytes = unheard) -> Critic:
        module = self._empty(folder)
        # Of a language model's head a critic has no use.
        module.lm_head = None
        head = zero_head(module.config.hidden_size, self.device)
        root = self._sharded(module, _Pass(transformer=module, head=head))
        with torch.no_grad():
            for parameter in head.parameters():
                own_shard(parameter).zero_()
        return ShardedCritic(self._filled(module, root, folder, on_bytes), head, settings, self.ranks, root)

    def adapt(self, policy: Policy, settings: TrainSettings, folder: Path) -> None:
        raise SettingsError("model.lora", "several ranks train all weights; leave it out, or train with one rank")

    def _empty(self, folder: Path) -> Transformer:
        """Without memory: no rank ever holds all weights. Raises ModelError."""
        try:
            config = read_config(folder)
        except UnsupportedModelError as error:
            raise ConfigError("config.json", f"{error}; the backend verl shards such models") from error
        check_weights(folder, config)
        with torch.device("meta"):
            return Transformer(config)

    def _sharded(self, module: Transformer, root: nn.Module) -> nn.Module:
        for layer in module.model.layers:
            fully_shard(layer, mesh=self._mesh)
            register_fsdp_forward_method(layer, "forward")
        fully_shard(root, mesh=self._mesh, reshard_after_forward=True)
        for one in root.modules():
            if isinstance(one, FSDPModule):
                # Weights of losses count all tokens of all ranks (I10): gradients are added up, not averaged.
                one.set_gradient_divide_factor(1.0)
                one.set_force_sum_reduction_for_comms(True)
        return root.to_empty(device=self.device)

    def _filled(self, module: Transformer, root: nn.Module, folder: Path, on_bytes: OnBytes) -> ShardedPolicy:
        policy = ShardedPolicy(module, self._compute, self.ranks, root)
        policy.read(folder, on_bytes)
        require_finite(module, str(folder), UNUSABLE)
        return policy


def read_sharded(module: Transformer, directory: Path, on_bytes: OnBytes = unheard, keep_finer: bool = False) -> None:
    """Each rank takes its part of each tensor; with `keep_finer` what differs from it only in its last digits stays.

    Raises ModelError before anything is changed.
    """
    parameters: dict[str, Any] = dict(module.named_parameters())
    for file, names in check_weights(directory, module.config).items():
        with safe_open(file, framework="pt") as tensors:
            for name in names:
                tensor = tensors.get_tensor(name)
                on_bytes(tensor.nbytes)
                # A critic has no head of a language model.
                if name in parameters:
                    copy_whole(parameters[name], tensor, keep_finer)
