# SPDX-License-Identifier: Apache-2.0
"""A model that our transformer does not compute: by transformers, one sequence a row with padding and mask.

Its forward pass is a black box to us. So prompts are not shared between rows, and logits are those of whole positions,
not of trained tokens only: it needs more time and memory than our own transformer, for the same numbers.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from whetstone.trainer.v1 import trainer_pb2 as wire

from whetstone_models.folder import AS_THEY_ARE, WeightsForm
from whetstone_models.hugging_face import load_causal_lm, save_causal_lm
from whetstone_models.reading import OnBytes, unheard
from whetstone_trainer.backends.local.frozen import copied
from whetstone_trainer.backends.local.lora import Adapter
from whetstone_trainer.backends.local.micro_batches import MicroBatch, micro_batches
from whetstone_trainer.backends.local.scoring import computing_in, predict_logits, score_logits
from whetstone_trainer.batch.rows import Row


class HuggingFacePolicy:
    """Any causal language model of transformers. `why`: what our own transformer lacks for it."""

    def __init__(self, module: Any, compute: torch.dtype = torch.float32, why: str = "") -> None:
        self.module, self._compute = module, compute
        self.adapter: Adapter | None = None
        self.notices = [_not_packed(type(module).__name__, why)]
        self._accepts = frozenset(inspect.signature(module.forward).parameters)

    @staticmethod
    def load(
        directory: Path, compute: torch.dtype, device: torch.device, on_bytes: OnBytes = unheard, why: str = ""
    ) -> HuggingFacePolicy:
        """Raises ModelError."""
        return HuggingFacePolicy(load_causal_lm(directory, torch.float32, device, on_bytes), compute, why)

    @property
    def vocab_size(self) -> int:
        return self.module.config.get_text_config().vocab_size

    @property
    def context(self) -> int:
        """Of a model without positions, such as a state space model, whatever fits into memory."""
        return getattr(self.module.config.get_text_config(), "max_position_embeddings", sys.maxsize)

    def cut(self, rows: Sequence[Row], token_budget: int) -> Iterator[MicroBatch]:
        return micro_batches(rows, token_budget, self.module.device, packed=False)

    def score(self, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        return score_logits(self._logits(batch), batch, 0, entropy_gradient)

    def predict(self, batch: MicroBatch) -> Tensor:
        return predict_logits(self._logits(batch), batch.targets_M, batch.temperatures_M)

    def _logits(self, batch: MicroBatch) -> Tensor:
        """Of the tokens before the trained ones, [M, V]."""
        given, row_M, column_M = self._padded(batch)
        # Positions that any of the sequences is asked for.
        asked_A, which_M = torch.unique(column_M, return_inverse=True)
        with computing_in(self._compute, batch.device):
            if "logits_to_keep" in self._accepts:
                logits_BAV = self.module(**given, logits_to_keep=asked_A).logits
            else:
                logits_BAV = self.module(**given).logits[:, asked_A]
        return logits_BAV[row_M, which_M]

    @property
    def body(self) -> Any:
        return self.module.base_model

    @property
    def hidden_size(self) -> int:
        return self.module.config.get_text_config().hidden_size

    def hidden(self, batch: MicroBatch) -> Tensor:
        given, row_M, column_M = self._padded(batch)
        with computing_in(self._compute, batch.device):
            return self.body(**given).last_hidden_state[row_M, column_M]

    def _padded(self, batch: MicroBatch) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """What the module is given, and where the token before each trained one stands in it: row and column [M]."""
        lengths = [tree.length for tree in batch.trees]
        ids_BT = pad_sequence(list(batch.token_ids_T.split(lengths)), batch_first=True)
        lengths_B = torch.tensor(lengths, device=batch.device)
        row_T = torch.repeat_interleave(torch.arange(len(lengths), device=batch.device), lengths_B)
        row_M, column_M = row_T[batch.predictors_M], batch.positions_T[batch.predictors_M]
        given: dict[str, Tensor] = {"input_ids": ids_BT}
        if "attention_mask" in self._accepts:
            mask_BT = torch.arange(ids_BT.shape[1], device=batch.device) < lengths_B.unsqueeze(1)
            given["attention_mask"] = mask_BT.long()
        return given, row_M, column_M

    def frozen(self) -> HuggingFacePolicy:
        return copied(self)

    def read(self, directory: Path, on_bytes: OnBytes = unheard) -> None:
        """Needs memory for a second model meanwhile: how files become parameters is known to transformers only.

        An adapter's file is ours, and needs none.
        """
        if self.adapter is not None:
            return self.adapter.read(directory, on_bytes)
        other = load_causal_lm(directory, self.module.dtype, self.module.device, on_bytes)
        self.module.load_state_dict(other.state_dict())

    def keep_finer(self, directory: Path) -> None:
        """It is published as it is, so that nothing is finer."""
        self.read(directory)

    def write(self, directory: Path, version: int, source: Path, form: WeightsForm = AS_THEY_ARE) -> None:
        if self.adapter is None:
            save_causal_lm(self.module, directory, version, source, form.shard_bytes)
        else:
            merged = self.adapter.merged_into(self.module.state_dict())
            save_causal_lm(self.module, directory, version, source, form.shard_bytes, merged, self.adapter.write)


def _not_packed(kind: str, why: str) -> wire.Notice:
    message = (
        f"model.path: the trainer loads this model with transformers ({kind}), one padded row a sequence: rows of a "
        f"group do not share their prompt, so a step takes longer and needs more memory. {why}."
    )
    return wire.Notice(reason="NotPacked", message=message)
