# SPDX-License-Identifier: Apache-2.0
"""What a request may change about the model's own distribution: penalties, biases, and the form of the answer."""
