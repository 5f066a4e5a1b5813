# SPDX-License-Identifier: Apache-2.0
"""Attention over the paged KV cache: what a step needs is planned once, then every layer only indexes tensors."""

from whetstone_engine.attention.paged import PagedAttention, Plan

__all__ = ["PagedAttention", "Plan"]
