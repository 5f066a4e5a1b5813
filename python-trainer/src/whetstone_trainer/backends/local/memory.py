# SPDX-License-Identifier: Apache-2.0
"""Micro-batches that do not fit into memory are cut smaller, and stay so: the gradient is the same (I10)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import nn

from whetstone_models.transformer import Decoder
from whetstone_trainer.backends.local.micro_batches import MicroBatch
from whetstone_trainer.backends.local.ranks import Ranks
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError

T = TypeVar("T")
Cut = Callable[[Sequence[Row], int], Iterator[MicroBatch]]
ALONE = Ranks()
log = logging.getLogger("whetstone_trainer")


def decoders(models: Sequence[nn.Module]) -> list[Decoder]:
    """Those of our own transformer."""
    return [one for model in models for one in model.modules() if isinstance(one, Decoder)]


def recompute_activations(model: nn.Module, algorithm: str) -> None:
    """The pass back computes the inside of its layers once more. Raises SettingsError if that cannot be."""
    found = decoders([model])
    if not found:
        kind = algorithm if algorithm in ("sft", "dpo") else "policyGradient"
        why = "is only done with models that our own transformer computes, and by the backend local; leave it out"
        raise SettingsError(f"algorithm.{kind}.batching.recomputeActivations", why)
    for one in found:
        one.recompute = True


class TokenBudget:
    """Most ids of one forward pass. Halved when memory ran out, for as long as the job is in this process."""

    def __init__(self, tokens: int, models: Sequence[nn.Module] = (), ranks: Ranks = ALONE) -> None:
        """`models`: those that can keep less for the pass back do so once a single sequence does not fit."""
        self.tokens, self.ranks = tokens, ranks
        self._models = decoders(models)
        self._halved = 0

    def passes(self, cut: Cut, rows: Sequence[Row]) -> Iterator[MicroBatch]:
        """The forward passes over `rows` that are this rank's."""
        total = sum(len(row.token_ids) for row in rows)
        return self.ranks.own(cut(rows, self.ranks.tokens_of_pass(total, self.tokens)))

    def take_halved(self) -> int:
        """How often memory ran out since this was last asked."""
        halved, self._halved = self._halved, 0
        return halved

    def halve(self, micro: MicroBatch) -> None:
        """After `micro` did not fit. Raises TrainerError if it is a single sequence, and nothing less can be kept."""
        tokens = sum(tree.length for tree in micro.trees)
        if self.ranks.count > 1:
            # The other ranks wait within this pass and cannot begin it anew.
            message = (
                f"a pass of {tokens} tokens does not fit into the memory of {micro.device}: "
                "lower algorithm.<kind>.batching.microBatchTokens, or train on more ranks"
            )
            raise TrainerError("TRAINER_FAILED", message, reason="OutOfMemory")
        is_alone = sum(len(tree.branches) for tree in micro.trees) == 1
        if is_alone and all(model.recompute for model in self._models):
            raise TrainerError(
                "TRAINER_FAILED",
                f"a sequence of {tokens} tokens alone does not fit into the memory of {micro.device}: "
                "lower limits.maxPromptTokens, limits.maxResponseTokens or limits.maxSteps, or take a larger device",
                reason="OutOfMemory",
            )
        if is_alone:
            for model in self._models:
                model.recompute = True
        else:
            self.tokens = max(1, min(self.tokens, tokens) // 2)
        self._halved += 1
        log.warning("out_of_memory", extra={"tokens": tokens, "micro_batch_tokens": self.tokens, "recompute": is_alone})
        if micro.device.type == "cuda":
            torch.cuda.empty_cache()


def is_out_of_memory(error: RuntimeError) -> bool:
    """PyTorch's allocator for CPUs raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error)


def each_that_fits(
    rows: Sequence[Row],
    budget: TokenBudget,
    cut: Cut,
    work: Callable[[MicroBatch], T],
) -> Iterator[tuple[MicroBatch, T]]:
    """`work` of every micro-batch. It has no lasting effect, so what did not fit is done again in smaller parts."""
    for micro in budget.passes(cut, rows):
        done = _attempt(micro, work)
        if done is not None:
            if not micro.is_filler:
                yield micro, done[0]
            continue
        budget.halve(micro)
        yield from each_that_fits(micro.rows, budget, cut, work)


def _attempt(micro: MicroBatch, work: Callable[[MicroBatch], T]) -> tuple[T] | None:
    """None: out of memory. What it had allocated is free again once this has returned."""
    try:
        return (work(micro),)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    return None
