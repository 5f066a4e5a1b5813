# SPDX-License-Identifier: Apache-2.0
"""The tokens of a micro-batch by the loss of their role: its rows may be of several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from whetstone_trainer.algorithms.aggregation import token_loss_of
from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.contract.settings import AlgorithmSettings


def token_losses(micro: MicroBatch, given: TokenLossInput, algorithm: AlgorithmSettings) -> TokenLossOutput:
    """Of each of the N tokens, by its own loss."""
    parts = list(_by_loss(micro, algorithm))
    outs = [loss.losses(given.of(own_P), algorithm.options) for loss, own_P in parts]
    order_N = torch.cat([own_P for _, own_P in parts]).argsort()
    columns = (torch.cat([getattr(out, field.name) for out in outs])[order_N] for field in fields(TokenLossOutput))
    return TokenLossOutput(*columns)


def sequence_terms(
    micro: MicroBatch, log_ratios_N: Tensor, advantages_N: Tensor, algorithm: AlgorithmSettings
) -> Tensor:
    """What is averaged over the sequence of each token [N], by its own loss."""
    terms_N = torch.empty_like(log_ratios_N)
    for loss, own_P in _by_loss(micro, algorithm):
        terms_N[own_P] = loss.sequence_term(log_ratios_N[own_P], advantages_N[own_P], algorithm.options)
    return terms_N


def _by_loss(micro: MicroBatch, algorithm: AlgorithmSettings) -> Iterator[tuple[TokenLoss, Tensor]]:
    """Each loss of the micro-batch's rows, with the indexes of its tokens among the N."""
    losses_R = [token_loss_of(row, algorithm) for row in micro.rows]
    names_N = np.array([loss.name for loss in losses_R])[micro.row_of_N]
    for loss in {loss.name: loss for loss in losses_R}.values():
        yield loss, torch.from_numpy(np.flatnonzero(names_N == loss.name)).to(micro.device)
