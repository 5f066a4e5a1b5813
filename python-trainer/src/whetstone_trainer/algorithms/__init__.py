# SPDX-License-Identifier: Apache-2.0
"""What is computed from rewards and log-probabilities, whatever backend holds the model. Formulas: docs/algorithms.md.

Each file of `advantages/` is a group estimator and each file of `losses/` a token loss, found by the name that it gives
itself: to add one is to add its file, and vectors in proto/golden/ that it must meet.
"""
