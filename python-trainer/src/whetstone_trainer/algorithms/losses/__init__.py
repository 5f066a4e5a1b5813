# SPDX-License-Identifier: Apache-2.0
"""Token losses, a file each, by name."""

from whetstone_trainer.algorithms.registry import offered
from whetstone_trainer.algorithms.token_loss import TokenLoss

TOKEN_LOSSES = offered(__name__, __path__, TokenLoss)
