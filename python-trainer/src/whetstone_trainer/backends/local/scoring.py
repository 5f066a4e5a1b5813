# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies of trained tokens. Logits, and the last layer, only where a token is trained.

Tokens of truncated sampling have theirs over the ids that they were drawn from, whatever the weights: with the same ids
on both sides a ratio is exact.

Weights are float32 always. Matrix products may be computed in bfloat16; the softmax and all after it never are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.token_logprobs import token_logprobs
from whetstone_trainer.backends.local.tree_attention import TreeAttention

# Logits of what could not be drawn: exp makes 0 of it, and 0 times it is 0, where infinity would make NaN.
EXCLUDED = -1e30
# Logits of at most this many elements at a time (256 MiB as float32); more are recomputed in the backward pass.
MAX_LOGITS = 64 * 1024 * 1024


def score(model: Transformer, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [M], nats, float32, of softmax(logits / temperature) over the supports.

    The entropy has a gradient only if asked for.
    """
    hidden_MH = hidden(model, batch)
    chunk = max(1, MAX_LOGITS // model.config.vocab_size)
    if len(hidden_MH) <= chunk:
        return _score(model, hidden_MH, batch, 0, entropy_gradient)
    parts = []
    for start in range(0, len(hidden_MH), chunk):
        given = (model, hidden_MH[start : start + chunk], batch, start, entropy_gradient)
        parts.append(checkpoint(_score, *given, use_reentrant=False) if torch.is_grad_enabled() else _score(*given))
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropies for _, entropies in parts])


def predict(model: Transformer, batch: MicroBatch) -> Tensor:
    """Log-probabilities, and whether no token is likelier: [M, 2] float32. Without a gradient."""
    hidden_MH = hidden(model, batch)
    chunk = max(1, MAX_LOGITS // model.config.vocab_size)
    given = zip(*(one.split(chunk) for one in (hidden_MH, batch.targets_M, batch.temperatures_M)), strict=True)
    return torch.cat([predict_logits(model.logits(part), targets, heat) for part, targets, heat in given])


def computing_in(dtype: torch.dtype, device: torch.device) -> torch.autocast:
    """Where matrix products take `dtype`: the weights are cast on the way in, gradients come back as float32."""
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def hidden(model: Transformer, batch: MicroBatch) -> Tensor:
    """Final hidden states [M, H] of the tokens before the trained ones."""
    asked_S, which_M = torch.unique(batch.predictors_M, return_inverse=True)
    attend = TreeAttention(batch.trees, asked_S, model.config.num_layers - 1)
    return model.run(batch.token_ids_T, batch.positions_T, attend, asked_S)[which_M]


def _score(
    model: Transformer, hidden_CH: Tensor, batch: MicroBatch, start: int, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    return score_logits(model.logits(hidden_CH), batch, start, entropy_gradient)


def predict_logits(logits_MV: Tensor, targets_M: Tensor, temperatures_M: Tensor) -> Tensor:
    """Of softmax(logits / temperature): as `predict`."""
    log_softmax_MV = F.log_softmax(logits_MV.float() / temperatures_M.unsqueeze(1), dim=-1)
    logprobs_M = log_softmax_MV.gather(1, targets_M.unsqueeze(1)).squeeze(1)
    return torch.stack([logprobs_M, (logprobs_M >= log_softmax_MV.amax(-1)).float()], dim=1)


def score_logits(logits_CV: Tensor, batch: MicroBatch, start: int, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [C] of trained tokens start … start + C - 1. The logits are overwritten."""
    part = slice(start, start + len(logits_CV))
    logits_CV, temperatures_C = logits_CV.float(), batch.temperatures_M[part]
    if bool((temperatures_C != 1).any()):
        logits_CV = logits_CV / temperatures_C.unsqueeze(1)
    if batch.supports is not None:
        logits_CV = logits_CV.masked_fill(batch.supports.outside(start, *logits_CV.shape), EXCLUDED)
    return token_logprobs(logits_CV, batch.targets_M[part], entropy_gradient)
