# SPDX-License-Identifier: Apache-2.0
"""Token losses, a file each: `TOKEN_LOSSES` by name, `LOSS_OF` by the value in a job."""

from whetstone_trainer.algorithms.registry import offered
from whetstone_trainer.algorithms.token_loss import TokenLoss

TOKEN_LOSSES = offered(__name__, __path__, TokenLoss)
LOSS_OF = {one.wire: one for one in TOKEN_LOSSES.values() if one.wire is not None}
