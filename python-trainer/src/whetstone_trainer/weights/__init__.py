# SPDX-License-Identifier: Apache-2.0
"""The run folder: published weights, checkpoints, and waiting for disk space."""
