# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies of trained tokens. Logits, and the last layer, only where a token is trained."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from whetstone_models.transformer import Transformer
from whetstone_trainer.backends.local.micro_batches import MicroBatch

# Logits of at most this many elements at a time (256 MiB as float32); more are recomputed in the backward pass.
MAX_LOGITS = 64 * 1024 * 1024


def score(model: Transformer, batch: MicroBatch, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [M], nats, float32, of softmax(logits / temperature).

    The entropy has a gradient only if asked for.
    """
    hidden_MH = _hidden(model, batch)
    chunk = max(1, MAX_LOGITS // model.config.vocab_size)
    if len(hidden_MH) <= chunk:
        return _score(model, hidden_MH, batch.targets_M, batch.temperatures_M, entropy_gradient)
    parts = []
    for start in range(0, len(hidden_MH), chunk):
        part = slice(start, start + chunk)
        given = (model, hidden_MH[part], batch.targets_M[part], batch.temperatures_M[part], entropy_gradient)
        parts.append(checkpoint(_score, *given, use_reentrant=False) if torch.is_grad_enabled() else _score(*given))
    return torch.cat([logprobs for logprobs, _ in parts]), torch.cat([entropies for _, entropies in parts])


def _hidden(model: Transformer, batch: MicroBatch) -> Tensor:
    """Final hidden states [M, H] of the tokens before the trained ones."""
    if batch.allowed_BTT is None:
        return model.hidden(batch.token_ids_BT, batch.positions_BT).flatten(0, 1)[batch.predictors_M]
    asked_S, which_M = torch.unique(batch.predictors_M, return_inverse=True)
    attend = TreeAttend(batch.allowed_BTT, asked_S, last_layer=model.config.num_layers - 1)
    return model.run(batch.token_ids_BT.flatten(), batch.positions_BT.flatten(), attend, asked_S)[which_M]


class TreeAttend:
    """Attention within packed trees [B·T, heads, head_dim]. The last layer is asked for the tokens `asked_S` only."""

    def __init__(self, allowed_BTT: Tensor, asked_S: Tensor, last_layer: int) -> None:
        self._shape, self._last_layer = allowed_BTT.shape[:2], last_layer
        self._allowed = allowed_BTT.unsqueeze(1)
        width = allowed_BTT.shape[1]
        self._tree_S, token_S = asked_S // width, asked_S % width
        counts_B = torch.bincount(self._tree_S, minlength=allowed_BTT.shape[0])
        self._slot_S = torch.arange(len(asked_S), device=asked_S.device) - (counts_B.cumsum(0) - counts_B)[self._tree_S]
        self._slots = int(counts_B.max())
        asked_BQT = allowed_BTT.new_ones(allowed_BTT.shape[0], self._slots, width)
        asked_BQT[self._tree_S, self._slot_S] = allowed_BTT[self._tree_S, token_S]
        self._asked_allowed = asked_BQT.unsqueeze(1)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        key, value = key.unflatten(0, self._shape), value.unflatten(0, self._shape)
        if layer != self._last_layer:
            return _masked_attention(query.unflatten(0, self._shape), key, value, self._allowed).flatten(0, 1)
        slots_BQ = query.new_zeros(self._shape[0], self._slots, *query.shape[1:])
        slots_BQ = slots_BQ.index_put((self._tree_S, self._slot_S), query)
        return _masked_attention(slots_BQ, key, value, self._asked_allowed)[self._tree_S, self._slot_S]


def _masked_attention(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, enable_gqa=grouped).transpose(1, 2)


def _score(
    model: Transformer, hidden_MH: Tensor, targets_M: Tensor, temperatures_M: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    return score_logits(model.logits(hidden_MH), targets_M, temperatures_M, entropy_gradient)


def score_logits(
    logits_MV: Tensor, targets_M: Tensor, temperatures_M: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies [M] of softmax(logits / temperature)."""
    logits_MV = logits_MV.float() / temperatures_M.unsqueeze(1)
    log_softmax_MV = F.log_softmax(logits_MV, dim=-1)
    logprobs_M = log_softmax_MV.gather(1, targets_M.unsqueeze(1)).squeeze(1)
    for_entropy_MV = log_softmax_MV if entropy_gradient else log_softmax_MV.detach()
    entropies_M = -(for_entropy_MV.exp() * for_entropy_MV).sum(-1)
    return logprobs_M, entropies_M
