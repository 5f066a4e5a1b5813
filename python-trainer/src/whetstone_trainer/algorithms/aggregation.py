# SPDX-License-Identifier: Apache-2.0
"""How the losses of tokens become one number.

I10: a loss is a weighted sum over trained tokens, and the weights come from denominators of the whole mini-batch.
So its gradient does not depend on how the mini-batch is split, and a masked token, having no weight, has none.
Source: verl core_algos (`agg_loss`). Vectors: proto/golden/.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_weights(
    lengths_R: Tensor,
    mode: str,
    total_tokens: float,
    total_rows: float,
    scale_factor: float,
    workers: int = 1,
) -> Tensor:
    """Weight of each token of row r, [R] float: the aggregated loss is Σ_r weight_r · Σ_t loss_rt.

    `lengths_R`: trained tokens of each row. `total_*`: of the whole mini-batch, over all workers; rows without a
    trained token are not counted. `scale_factor`: divisor of seq-mean-token-sum-norm. `workers`: gradients will be
    averaged over that many.
    """
    lengths_R = lengths_R.to(torch.float64)
    if mode == "token-mean":
        weights_R = torch.full_like(lengths_R, 1.0 / total_tokens)
    elif mode == "token-sum":
        weights_R = torch.ones_like(lengths_R)
    elif mode == "seq-mean-token-sum":
        weights_R = torch.full_like(lengths_R, 1.0 / total_rows)
    elif mode == "seq-mean-token-sum-norm":
        weights_R = torch.full_like(lengths_R, 1.0 / (total_rows * scale_factor))
    elif mode == "seq-mean-token-mean":
        weights_R = 1.0 / (total_rows * (lengths_R + 1e-8))
    else:
        raise ValueError(f"unknown loss aggregation {mode!r}")
    return weights_R * workers
