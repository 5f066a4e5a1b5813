# SPDX-License-Identifier: Apache-2.0
"""PyTorch in this process, on a CPU or one GPU."""
