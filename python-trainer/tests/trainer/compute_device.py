# SPDX-License-Identifier: Apache-2.0
"""Where tests compute: a CPU, unless WHETSTONE_TEST_DEVICE=cuda says otherwise (`deploy/gpu/tests.sh`)."""

from __future__ import annotations

import os

import torch

DEVICE = torch.device(os.environ.get("WHETSTONE_TEST_DEVICE", "cpu"))
