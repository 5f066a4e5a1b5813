# SPDX-License-Identifier: Apache-2.0
"""What a critic is trained with: squared error, with PPO's clip. arXiv 1707.06347; verl `compute_value_loss`."""

import torch
from torch import Tensor


def value_losses(values_N: Tensor, returns_N: Tensor, old_values_N: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """½·max((v - R)², (clip(v, old - clip, old + clip) - R)²), and where the second is larger; `clip` 0: no clip."""
    plain_N = (values_N - returns_N).square()
    if clip <= 0:
        return 0.5 * plain_N, torch.zeros_like(plain_N, dtype=torch.bool)
    near_N = torch.clamp(values_N, old_values_N - clip, old_values_N + clip)
    bounded_N = (near_N - returns_N).square()
    return 0.5 * torch.maximum(plain_N, bounded_N), (bounded_N > plain_N).detach()
