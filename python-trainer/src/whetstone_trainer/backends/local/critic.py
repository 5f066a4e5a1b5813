# SPDX-License-Identifier: Apache-2.0
"""The value function of a job: a model of its own, a head that makes one number of a hidden state, their optimizer.

Its files are part of a checkpoint. No engine needs it, so it is not published.
"""

from __future__ import annotations

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
from whetstone_trainer.backends.local.policy import Policy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError

WEIGHTS, OPTIMIZER = "critic.safetensors", "critic-optimizer.pt"


class Critic:
    """Values of trained tokens: what is expected of the rewards from each on, before it is drawn."""

    def __init__(self, start: Policy, settings: jobs.Critic) -> None:
        """`start`: its weights become the critic's. The head is 0: at first all is expected to be worth nothing.

        With a random head the first advantages would be those of noise.
        """
        self._model = start
        parameter = next(start.body.parameters())
        self.head = nn.Linear(start.hidden_size, 1, device=parameter.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.module = nn.ModuleDict({"model": start.body, "value_head": self.head})
        self.optimizer = make_optimizer(self.module, settings.optimizer)

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return self._model.cut(rows, token_budget)

    def values(self, micro: MicroBatch) -> Tensor:
        """[M] float32."""
        return self.head(self._model.hidden(micro).float()).squeeze(1)

    def tensors(self) -> list[Tensor]:
        """What `write` writes."""
        return [*self.module.parameters(), *optimizer_tensors(self.optimizer)]

    def write(self, directory: Path) -> None:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.module.named_parameters()}
        save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
        write_optimizer(directory, self.optimizer, OPTIMIZER)

    def read(self, directory: Path, on_bytes: OnBytes) -> None:
        """What `write` wrote. Raises TrainerError DATA_LOSS if it cannot be read; the critic is half changed then."""
        path = directory / WEIGHTS
        try:
            with safe_open(path, framework="pt") as tensors, torch.no_grad():
                for name, parameter in self.module.named_parameters():
                    tensor = tensors.get_tensor(name)
                    parameter.copy_(tensor)
                    on_bytes(tensor.nbytes)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            raise TrainerError("DATA_LOSS", f"{path}: cannot be read: {error!r}") from error
        device = self.head.weight.device
        self.optimizer.load_state_dict(read_optimizer(directory, device, on_bytes, OPTIMIZER))
