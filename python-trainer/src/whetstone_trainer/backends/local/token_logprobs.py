# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of chosen tokens and entropies, in the memory of the logits alone.

A table of logits is by far the largest tensor of a pass. Probabilities take its place, some rows at a time, and in the
backward pass its gradient takes theirs: where autograd would hold five such tables there is one.

Shapes: C tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Elements of the rows that are computed at a time: they stay in a CPU's cache, and are one kernel's worth on a GPU.
CPU_ELEMENTS, GPU_ELEMENTS = 1 << 18, 1 << 26


def token_logprobs(logits_CV: Tensor, targets_C: Tensor, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
    """[C] each, nats: of softmax(logits). The entropy has a gradient only if asked for.

    `logits_CV` is float32, nobody else may read it, and it is overwritten.
    """
    return _TokenLogprobs.apply(logits_CV, targets_C, entropy_gradient)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_CV: Tensor, targets_C: Tensor, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
        logprobs_C, entropies_C = torch.empty_like(logits_CV[:, 0]), torch.empty_like(logits_CV[:, 0])
        rows = _rows_at_a_time(logits_CV)
        given = zip(*(one.split(rows) for one in (logits_CV, targets_C, logprobs_C, entropies_C)), strict=True)
        for logits_RV, targets_R, logprobs_R, entropies_R in given:
            logits_RV -= logits_RV.logsumexp(1, keepdim=True)
            logprobs_R.copy_(logits_RV.gather(1, targets_R.unsqueeze(1)).squeeze(1))
            probabilities_RV = logits_RV.exp()
            torch.linalg.vecdot(probabilities_RV, logits_RV, out=entropies_R).neg_()
            logits_RV.copy_(probabilities_RV)
        if ctx.needs_input_grad[0]:
            # Not by save_for_backward, which forbids what the backward pass does: overwrite it.
            ctx.probabilities_CV, ctx.entropy_gradient = logits_CV, entropy_gradient
            ctx.save_for_backward(targets_C, entropies_C)
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropies_C)
        return logprobs_C, entropies_C

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """d log p(t) / d logit(v) = [t = v] - p(v), and d H / d logit(v) = -p(v) · (log p(v) + H)."""
        of_logprobs_C, of_entropies_C = grad_outputs
        targets_C, entropies_C = ctx.saved_tensors
        table_CV, ctx.probabilities_CV = ctx.probabilities_CV, None
        rows = _rows_at_a_time(table_CV)
        given = zip(
            *(one.split(rows) for one in (table_CV, targets_C, entropies_C, of_logprobs_C, of_entropies_C)), strict=True
        )
        for table_RV, targets_R, entropies_R, of_logprobs_R, of_entropies_R in given:
            factors_RV = -of_logprobs_R.unsqueeze(1)
            if ctx.entropy_gradient:
                log_RV = table_RV.clamp_min(torch.finfo(table_RV.dtype).tiny).log_()
                factors_RV = factors_RV - of_entropies_R.unsqueeze(1) * log_RV.add_(entropies_R.unsqueeze(1))
            table_RV *= factors_RV
            table_RV.scatter_add_(1, targets_R.unsqueeze(1), of_logprobs_R.unsqueeze(1))
        return table_CV, None, None


def _rows_at_a_time(table_CV: Tensor) -> int:
    return max(1, (GPU_ELEMENTS if table_CV.is_cuda else CPU_ELEMENTS) // table_CV.shape[1])
