# SPDX-License-Identifier: Apache-2.0
"""The value function of a job: a model of its own, a head that makes one number of a hidden state, their optimizer.

Its files are part of a checkpoint. No engine needs it, so it is not published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.reading import OnBytes
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.optimizer import make_optimizer, optimizer_tensors
from whetstone_trainer.backends.local.optimizer_file import read_optimizer, write_optimizer
from whetstone_trainer.backends.local.policy import WithBody
from whetstone_trainer.backends.local.ranks import Ranks, copy_whole, whole_tensors
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError

WEIGHTS, OPTIMIZER = "critic.safetensors", "critic-optimizer.pt"


class Critic(ABC):
    """Values of trained tokens: what is expected of the rewards from each on, before it is drawn."""

    def __init__(self, module: nn.Module, settings: jobs.Critic, ranks: Ranks, vocab_size: int) -> None:
        """`module`: with the parameters model.* and value_head.*, the latter 0."""
        self.module, self.vocab_size, self._ranks = module, vocab_size, ranks
        self.optimizer = make_optimizer(module, settings.optimizer)

    @abstractmethod
    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        """As `Policy.cut`."""

    @abstractmethod
    def values(self, micro: MicroBatch) -> Tensor:
        """[M] float32."""

    def tensors(self) -> list[Tensor]:
        """What `write` writes."""
        return [*self.module.parameters(), *optimizer_tensors(self.optimizer)]

    def write(self, directory: Path) -> None:
        """By the first rank; all must call."""
        tensors = whole_tensors(self.module, self._ranks)
        if self._ranks.index == 0:
            save_file(
                {name: one.contiguous() for name, one in tensors.items()},
                directory / WEIGHTS,
                metadata={"format": "pt"},
            )
        write_optimizer(directory, self.module, self.optimizer, self._ranks, OPTIMIZER)

    def read(self, directory: Path, on_bytes: OnBytes) -> None:
        """What `write` wrote. Raises TrainerError DATA_LOSS if it cannot be read; the critic is half changed then."""
        path = directory / WEIGHTS
        try:
            with safe_open(path, framework="pt") as tensors:
                for name, parameter in self.module.named_parameters():
                    tensor = tensors.get_tensor(name)
                    copy_whole(parameter, tensor)
                    on_bytes(tensor.nbytes)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error
        read_optimizer(directory, self.module, self.optimizer, on_bytes, OPTIMIZER)


class LocalCritic(Critic):
    """With the body of a policy."""

    def __init__(self, start: WithBody, settings: jobs.Critic) -> None:
        """`start`: its weights become the critic's."""
        self._model = start
        self.head = zero_head(start.hidden_size, next(start.body.parameters()).device)
        module = nn.ModuleDict({"model": start.body, "value_head": self.head})
        super().__init__(module, settings, Ranks(), start.vocab_size)

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return self._model.cut(rows, token_budget)

    def values(self, micro: MicroBatch) -> Tensor:
        return self.head(self._model.hidden(micro).float()).squeeze(1)


def zero_head(hidden_size: int, device: torch.device) -> nn.Linear:
    """At first all is expected to be worth nothing: with a random head the first advantages would be those of noise."""
    head = nn.Linear(hidden_size, 1, device=device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head
