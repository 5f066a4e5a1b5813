# SPDX-License-Identifier: Apache-2.0
"""A model that is trained: how it scores a micro-batch, and how its weights are read and written."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from whetstone_models.folder import load_into, load_model, save_weights
from whetstone_models.reading import OnBytes, unheard
from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.scoring import score
from whetstone_trainer.contract.errors import TrainerError


class TransformerPolicy:
    """Our own transformer: sequences are packed into trees."""

    def __init__(self, module: Transformer) -> None:
        self.module = module

    @property
    def device(self) -> torch.device:
        return self.module.model.norm.weight.device

    @property
    def vocab_size(self) -> int:
        return self.module.config.vocab_size

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        return score(self.module, batch, entropy_gradient)

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        """Copies a folder's weights into the model, in place. Raises ModelError, leaving it unchanged, otherwise."""
        load_into(self.module, directory, on_bytes)

    def write(self, directory: Path, version: int, source: Path) -> None:
        """A new folder with these weights, and the configuration and tokenizer of `source`. Raises FileExistsError."""
        save_weights(self.module, directory, version, source)


Policy = TransformerPolicy


def load_policy(directory: Path, dtype: torch.dtype, device: torch.device, on_bytes: OnBytes = unheard) -> Policy:
    """Raises ModelError if the folder cannot be trained, TrainerError if its weights are not finite."""
    policy = TransformerPolicy(load_model(directory, dtype, device, on_bytes=on_bytes))
    require_finite(policy, str(directory), "the trainer cannot start from them; use a model folder that is whole")
    return policy


def require_finite(policy: Policy, where: str, advice: str) -> None:
    """Raises TrainerError: weights that are not finite make every answer useless and must not be published."""
    for name, parameter in policy.module.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            message = f"{where}: the weights {name} are not finite (NaN or infinite); {advice}"
            raise TrainerError("TRAINER_FAILED", message, reason="NonFiniteWeights")
