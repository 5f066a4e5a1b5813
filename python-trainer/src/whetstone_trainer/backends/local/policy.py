# SPDX-License-Identifier: Apache-2.0
"""A model that is trained: how rows are cut for it, how it scores them, how its weights are read and written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.errors import UnsupportedModelError
from whetstone_models.folder import (
    AS_THEY_ARE,
    WeightsForm,
    keep_finer,
    load_into,
    load_model,
    save_weights,
    write_bare,
)
from whetstone_models.reading import OnBytes, unheard
from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.frozen import copied
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.lora import Adapter
from whetstone_trainer.backends.local.micro_batches import MicroBatch, micro_batches
from whetstone_trainer.backends.local.ranks import own_shard
from whetstone_trainer.backends.local.scoring import computing_in, hidden, predict, score
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import TrainerError

log = logging.getLogger("whetstone_trainer")

UNUSABLE = "the trainer cannot start from them; use a model folder that is whole"


class Policy(Protocol):
    """One version of a model in memory."""

    # Absent: all weights are trained. With it, `read` and `write` are of the adapter: the other weights never change.
    adapter: Adapter | None

    @property
    def module(self) -> nn.Module: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def context(self) -> int:
        """Most tokens of a sequence."""
        ...

    @property
    def notices(self) -> Sequence[wire.Notice]:
        """What people should know of it."""
        ...

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        """Forward passes of at most so many ids, padding included; at least one sequence each."""
        ...

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies [M], nats, float32; the entropy has a gradient only if asked for."""
        ...

    def predict(self, batch: MicroBatch) -> Tensor:
        """Log-probabilities, and whether no token is likelier: [M, 2] float32."""
        ...

    def frozen(self) -> Policy | None:
        """A copy that stays as it is. None: one costs too much; its folder can be read."""
        ...

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        """Copies a folder's weights into the model, in place. Raises ModelError, leaving it unchanged, otherwise."""
        ...

    def keep_finer(self, directory: Path) -> None:
        """As `read`; but what the folder only says with fewer digits stays as it is."""
        ...

    def write(self, directory: Path, version: int, source: Path, form: WeightsForm = AS_THEY_ARE) -> None:
        """A new folder with these weights, and the configuration and tokenizer of `source`. Raises FileExistsError."""
        ...


class WithBody(Policy, Protocol):
    """A policy that a critic of this process can start from."""

    @property
    def body(self) -> nn.Module:
        """What computes hidden states: the module without its language model's head."""
        ...

    @property
    def hidden_size(self) -> int: ...

    def hidden(self, batch: MicroBatch) -> Tensor:
        """Final hidden states [M, hidden_size] of the tokens before the trained ones."""
        ...


class TransformerPolicy:
    """Our own transformer: sequences are packed into trees."""

    notices: Sequence[wire.Notice] = ()

    def __init__(self, module: Transformer, compute: torch.dtype = torch.float32) -> None:
        self.module, self._compute = module, compute
        self.adapter: Adapter | None = None

    @property
    def vocab_size(self) -> int:
        return self.module.config.vocab_size

    @property
    def context(self) -> int:
        return self.module.config.max_position

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        config = self.module.config
        values = config.num_layers * config.hidden_size
        return micro_batches(rows, token_budget, self.module.model.norm.weight.device, token_values=values)

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        with computing_in(self._compute, batch.device):
            return score(self.module, batch, entropy_gradient)

    def predict(self, batch: MicroBatch) -> Tensor:
        with computing_in(self._compute, batch.device):
            return predict(self.module, batch)

    @property
    def body(self) -> nn.Module:
        return self.module.model

    @property
    def hidden_size(self) -> int:
        return self.module.config.hidden_size

    def hidden(self, batch: MicroBatch) -> Tensor:
        with computing_in(self._compute, batch.device):
            return hidden(self.module, batch)

    def frozen(self) -> TransformerPolicy:
        return copied(self)

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        if self.adapter is not None:
            self.adapter.read(directory, on_bytes)
        else:
            load_into(self.module, directory, on_bytes)

    def keep_finer(self, directory: Path) -> None:
        if self.adapter is not None:
            self.adapter.read(directory, unheard)
        else:
            keep_finer(self.module, directory)

    def write_bare(self, directory: Path) -> None:
        """The weights as they are, beside the other files of a checkpoint."""
        write_bare(self.module, directory)

    def write(self, directory: Path, version: int, source: Path, form: WeightsForm = AS_THEY_ARE) -> None:
        if self.adapter is None:
            save_weights(self.module, directory, version, source, form)
        else:
            merged = self.adapter.merged_into(dict(self.module.named_parameters()))
            save_weights(merged, directory, version, source, form, self.adapter.write)


def load_policy(directory: Path, compute: torch.dtype, device: torch.device, on_bytes: OnBytes = unheard) -> WithBody:
    """With float32 weights, whatever the folder holds; `compute` is the type of its matrix products.

    Raises ModelError if the folder cannot be trained, TrainerError if its weights are not finite.
    """
    policy: WithBody
    try:
        policy = TransformerPolicy(load_model(directory, device=device, on_bytes=on_bytes), compute)
    except UnsupportedModelError as error:
        policy = HuggingFacePolicy.load(directory, compute, device, on_bytes, str(error))
        log.warning("model_not_packed", extra={"model": str(directory), "reason": str(error)})
    require_finite(policy.module, str(directory), UNUSABLE)
    return policy


def require_finite(module: nn.Module, where: str, advice: str) -> None:
    """Raises TrainerError: weights that are not finite make every answer useless and must not be published."""
    for name, parameter in module.named_parameters():
        if not _is_finite(own_shard(parameter.detach())):
            message = f"{where}: the weights {name} are not finite (NaN or infinite); {advice}"
            raise TrainerError("TRAINER_FAILED", message, reason="NonFiniteWeights")


def _is_finite(tensor: Tensor) -> bool:
    """A sum is finite only if all of it is, and takes a fortieth of the time; a sum of large numbers may not be."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())
