# SPDX-License-Identifier: Apache-2.0
"""Advantage estimators, a file each: `ESTIMATORS` by name, `ESTIMATOR_OF` by the value in a job."""

from whetstone_trainer.algorithms.estimator import Estimator
from whetstone_trainer.algorithms.registry import offered

ESTIMATORS = offered(__name__, __path__, Estimator)
ESTIMATOR_OF = {one.wire: one for one in ESTIMATORS.values() if one.wire is not None}
