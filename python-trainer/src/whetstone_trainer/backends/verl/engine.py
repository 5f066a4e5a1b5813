# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""verl's FSDP2 engine, made to hand out logits and values, so that losses are ours on every backend.

Import it after the platform is registered. Source: verl 0.9 `verl.workers.engine.fsdp`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from transformers.modeling_outputs import TokenClassifierOutput
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from whetstone_trainer.backends.local.critic import zero_head
from whetstone_trainer.backends.local.micro_batches import MicroBatch

# What an engine's forward pass gives.
OUTPUT = "whetstone"


class PolicyEngine(FSDPEngineWithLMHead):
    """A language model. Its pass gives the logits of all T ids of a micro-batch, [T, V]."""

    def prepare_model_outputs(
        self, output: Any, output_args: Any, micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        return {OUTPUT: output.logits.squeeze(0)}

    def forward(self, batch: MicroBatch) -> Tensor:
        """Of all T ids, with a gradient where one is being taken."""
        kept: dict[str, Tensor] = {}

        def keep(model_output: dict[str, Tensor], **_: Any) -> tuple[Tensor, dict[str, Any]]:
            kept.update(model_output)
            return torch.zeros(()), {}

        self.forward_step(_packed(batch), keep, forward_only=not torch.is_grad_enabled())
        return kept[OUTPUT]


class ValueModel(nn.Module):
    """The body of a language model with a head that makes one number of a hidden state."""

    def __init__(self, language_model: Any) -> None:
        super().__init__()
        self.config = language_model.config
        # What FSDP shards one by one.
        self._no_split_modules = language_model._no_split_modules
        self.model = language_model.base_model
        self.value_head = zero_head(self.config.get_text_config().hidden_size, torch.device("cpu"))

    def forward(self, **given: Any) -> TokenClassifierOutput:
        """A kind of output that FSDP looks into: from its tensors on, a pass back gathers weights again."""
        return TokenClassifierOutput(logits=self.value_head(self.model(**given).last_hidden_state.float()))


class ValueEngine(PolicyEngine):
    """A critic. Its pass gives values [T, 1]. verl's own loads a classifier with flash attention, or nothing."""

    def _build_module(self) -> nn.Module:
        return ValueModel(super()._build_module())


def start_engine(kind: type[PolicyEngine], folder: Path, compute: torch.dtype) -> PolicyEngine:
    """Weights are float32, sharded over all ranks; `compute` is the type of matrix products. All ranks must call.

    Raises what transformers raises for a folder that it cannot load.
    """
    dtypes = {"param_dtype": _name(compute), "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    model = HFModelConfig(
        path=str(folder),
        load_tokenizer=False,
        use_remove_padding=True,
        enable_gradient_checkpointing=False,
        override_config={} if torch.cuda.is_available() else {"attn_implementation": "sdpa"},
    )
    sharding = FSDPEngineConfig(strategy="fsdp2", use_torch_compile=False, mixed_precision=dtypes)
    # Never stepped: the optimizer is ours, whose settings change from step to step.
    optimizer = FSDPOptimizerConfig(lr=0.0, total_training_steps=1, lr_warmup_steps=0)
    engine = kind(model, sharding, optimizer, CheckpointConfig())
    engine.initialize()
    for module in engine.module.modules():
        if isinstance(module, FSDPModule):
            # Weights of losses count all tokens of all ranks (I10): gradients are added up, not averaged.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return engine


def _name(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "fp32"


def _packed(batch: MicroBatch) -> TensorDict:
    """As verl's engines take it: sequences of their own lengths, without padding."""
    lengths = torch.tensor([tree.length for tree in batch.trees])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).to(batch.device)
    columns = {"input_ids": batch.token_ids_T, "position_ids": batch.positions_T}
    nested = {name: torch.nested.nested_tensor_from_jagged(one, offsets) for name, one in columns.items()}
    packed = TensorDict(nested, batch_size=[len(lengths)])
    tu.assign_non_tensor(packed, use_remove_padding=True, temperature=1.0)
    return packed
