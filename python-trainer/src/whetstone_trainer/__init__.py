# SPDX-License-Identifier: Apache-2.0
"""The trainer service: reads sealed episodes, steps the optimizer, publishes weights and checkpoints."""
