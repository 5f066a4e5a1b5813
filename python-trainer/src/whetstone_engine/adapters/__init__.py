# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters by name: several policies over the weights of one model, in the same steps."""
