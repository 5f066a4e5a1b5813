# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""verl's FSDP2 engine, made to hand out logits and values, so that losses are ours on every backend.

Import it after the platform is registered. Source: verl 0.9 `verl.workers.engine.fsdp`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from transformers.modeling_outputs import TokenClassifierOutput
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.ulysses import get_ulysses_sequence_parallel_group, set_ulysses_sequence_parallel_group
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.engine.fsdp.utils import create_device_mesh

from whetstone_trainer.backends.local.critic import zero_head
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.verl.sequence_parallel import (
    attention_on_cpu,
    of_own_predictors,
    require_parallel,
    teams,
)
from whetstone_trainer.contract.settings import Sharding

# What an engine's forward pass gives.
OUTPUT = "whetstone"


class PolicyEngine(FSDPEngineWithLMHead):
    """A language model. Its pass gives the logits of this rank's ids of a micro-batch, [T, V]."""

    def _init_device_mesh(self) -> None:
        """As verl's, with the same groups of ranks for all engines of a process: they are never closed."""
        count, together = torch.distributed.get_world_size(), self.engine_config.ulysses_sequence_parallel_size
        self.device_mesh = create_device_mesh(count, self.engine_config.fsdp_size)
        self.ulysses_sequence_parallel_size, self.use_ulysses_sp = together, together > 1
        mesh = teams(count, together) if together > 1 else None
        self.ulysses_device_mesh, self.ulysses_parallel_group = mesh, mesh and mesh["sp"].get_group()

    def prepare_model_outputs(
        self, output: Any, output_args: Any, micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        return {OUTPUT: output.logits.squeeze(0)}

    def of_predictors(self, batch: MicroBatch, compute: Callable[[Tensor, MicroBatch], Tensor]) -> Tensor:
        """`compute` of what the pass gives for the token before each trained one, [M, V], and of their batch.

        Of ranks that compute together each does it for some of the M, and all have the result, [M, ...].
        """
        output_TV = self._forward(batch)
        if self.ulysses_parallel_group is None:
            return compute(output_TV[batch.predictors_M], batch)
        return of_own_predictors(output_TV, batch, self.ulysses_parallel_group, compute)

    def _forward(self, batch: MicroBatch) -> Tensor:
        """With a gradient where one is being taken."""
        kept: dict[str, Tensor] = {}

        def keep(model_output: dict[str, Tensor], **_: Any) -> tuple[Tensor, dict[str, Any]]:
            kept.update(model_output)
            return torch.zeros(()), {}

        before = get_ulysses_sequence_parallel_group()
        set_ulysses_sequence_parallel_group(self.ulysses_parallel_group)
        try:
            self.forward_step(_packed(batch), keep, forward_only=not torch.is_grad_enabled())
        finally:
            set_ulysses_sequence_parallel_group(before)
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


def start_engine(kind: type[PolicyEngine], folder: Path, compute: torch.dtype, sharding: Sharding) -> PolicyEngine:
    """Weights are float32, sharded over all ranks; `compute` is the type of matrix products. All ranks must call.

    Raises SettingsError for a sharding that the model cannot have, and what transformers raises for a folder that it
    cannot load.
    """
    together = sharding.sequence_parallel
    dtypes = {"param_dtype": _name(compute), "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    model = HFModelConfig(
        path=str(folder),
        load_tokenizer=False,
        use_remove_padding=True,
        enable_gradient_checkpointing=False,
        override_config={} if torch.cuda.is_available() else {"attn_implementation": attention_on_cpu(together)},
    )
    require_parallel(model.hf_config.get_text_config(), together)
    held = FSDPEngineConfig(
        strategy="fsdp2",
        use_torch_compile=False,
        mixed_precision=dtypes,
        ulysses_sequence_parallel_size=together,
        offload_policy=sharding.offload,
    )
    # Never stepped: the optimizer is ours, whose settings change from step to step.
    optimizer = FSDPOptimizerConfig(lr=0.0, total_training_steps=1, lr_warmup_steps=0)
    engine = kind(model, held, optimizer, CheckpointConfig())
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
