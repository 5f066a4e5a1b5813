# SPDX-License-Identifier: Apache-2.0
"""Group estimators, a file each: `GROUP_ESTIMATORS` by name, `ESTIMATOR_OF` by the value in a job."""

from whetstone_trainer.algorithms.group_estimator import GroupEstimator
from whetstone_trainer.algorithms.registry import offered

GROUP_ESTIMATORS = offered(__name__, __path__, GroupEstimator)
ESTIMATOR_OF = {one.wire: one for one in GROUP_ESTIMATORS.values() if one.wire is not None}
