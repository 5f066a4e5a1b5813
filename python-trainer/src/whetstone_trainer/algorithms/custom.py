# SPDX-License-Identifier: Apache-2.0
"""The estimator and the token loss of a job's own, out of a Python module that travels in its spec."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.manifest import flush
from whetstone_trainer.algorithms.estimator import Advantages, Estimator, Member
from whetstone_trainer.algorithms.guard import FIELD, AlgorithmError, Guard
from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossInput, TokenLossOutput
from whetstone_trainer.contract.errors import SettingsError

# What a job calls its own estimator and its own token loss.
CUSTOM = "custom"
MAX_BYTES = 64 * 1024
FILE = "algorithm.py"


@dataclass(frozen=True)
class ModuleRules:
    """What the operator of the trainer says of jobs' own code, which runs with the trainer's rights."""

    is_allowed: bool = False
    # Seconds that one call of it may take.
    hang_s: float = 60.0


@dataclass(frozen=True)
class CustomAlgorithm:
    """None: the module defines none. Both check what the code gives and raise AlgorithmError."""

    estimator: Estimator | None
    token_loss: TokenLoss | None


def load_custom(options: jobs.PolicyGradient, root: Path, rules: ModuleRules) -> CustomAlgorithm:
    """Runs the module, kept in the run folder `root`. Raises SettingsError, or AlgorithmError if it hung before."""
    code = options.module.encode()
    _require(rules, code, options.module_digest)
    guard = Guard(root / FILE, rules.hang_s)
    guard.require_returned()
    _keep(guard.path, code)
    try:
        module = guard.call(lambda: _executed(code, guard.path))
        return CustomAlgorithm(
            guard_estimator(one, guard) if (one := _defined(module, "ESTIMATOR", Estimator)) else None,
            guard_token_loss(one, guard) if (one := _defined(module, "TOKEN_LOSS", TokenLoss)) else None,
        )
    except AlgorithmError as error:
        raise SettingsError(FIELD, error.fault) from None


def _require(rules: ModuleRules, code: bytes, digest: str) -> None:
    if not rules.is_allowed:
        raise SettingsError(
            FIELD,
            "this trainer runs no code of jobs; its operator may allow it: "
            "trainer.algorithmModules: true in the chart's values, or WHETSTONE_ALGORITHM_MODULES=1",
        )
    if len(code) > MAX_BYTES:
        raise SettingsError(FIELD, f"has {len(code)} bytes, at most {MAX_BYTES} are possible")
    if (found := hashlib.sha256(code).hexdigest()) != digest:
        raise SettingsError(f"{FIELD}Digest", f"the SHA-256 of the code is {found}, not {digest or 'empty'}")


def _keep(path: Path, code: bytes) -> None:
    """Under its name the file is whole: errors quote its lines, and people find what a run was trained with."""
    if path.is_file() and path.read_bytes() == code:
        return
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.write_bytes(code)
    flush(temporary)
    temporary.rename(path)
    flush(path.parent)


def _executed(code: bytes, path: Path) -> ModuleType:
    module = ModuleType("job_algorithm")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # Where dataclasses look for it.
    exec(compile(code, str(path), "exec"), module.__dict__)
    return module


def _defined(module: ModuleType, name: str, kind: type[Any]) -> Any:
    one = getattr(module, name, None)
    if one is not None and not isinstance(one, kind):
        raise SettingsError(FIELD, f"{name} must be a {kind.__module__}.{kind.__name__}, not {type(one).__name__}")
    return one


def guard_estimator(one: Estimator, guard: Guard) -> Estimator:
    def advantages(members: Sequence[Member], options: jobs.PolicyGradient) -> Advantages:
        return guard.call(lambda: _of_members(one.advantages(members, options), members))

    def returns(member: Member, options: jobs.PolicyGradient) -> np.ndarray:
        assert one.returns is not None
        given = one.returns
        return guard.call(lambda: _numbers(given(member, options), member.tokens, "ESTIMATOR.returns"))

    def batch_factor(members: Sequence[Member]) -> float:
        assert one.batch_factor is not None
        given = one.batch_factor
        return guard.call(lambda: float(_numbers(given(members), 1, "ESTIMATOR.batch_factor")[0]))

    return replace(
        one,
        name=CUSTOM,
        wire=None,
        advantages=advantages,
        returns=returns if one.returns else None,
        batch_factor=batch_factor if one.batch_factor else None,
    )


def _of_members(found: Advantages, members: Sequence[Member]) -> list[np.ndarray]:
    if len(found) != len(members):
        raise ValueError(f"ESTIMATOR.advantages gave {len(found)} values for the {len(members)} members of a group")
    pairs = zip(found, members, strict=True)
    return [_numbers(value, member.tokens, "ESTIMATOR.advantages") for value, member in pairs]


def _numbers(value: Any, count: int, of: str) -> np.ndarray:
    """[count] float64."""
    found = np.asarray(value, dtype=np.float64)
    if found.shape not in ((), (count,)):
        raise ValueError(f"{of} gave shape {found.shape}, a number or shape ({count},) is needed")
    if not np.isfinite(found).all():
        raise ValueError(f"{of} gave a number that is not finite")
    return np.broadcast_to(found, count)


def guard_token_loss(one: TokenLoss, guard: Guard) -> TokenLoss:
    def losses(given: TokenLossInput, options: jobs.PolicyGradient) -> TokenLossOutput:
        leaf_N = given.logprobs_N.detach().requires_grad_(given.logprobs_N.requires_grad)
        own = replace(given, logprobs_N=leaf_N)
        out = guard.call(lambda: _of_tokens(one.losses(own, options), leaf_N))
        losses_N = out.losses_N
        if leaf_N.requires_grad and torch.is_grad_enabled():
            losses_N = _WithGradient.apply(given.logprobs_N, _Backward(leaf_N, losses_N, guard))
        return TokenLossOutput(losses_N, out.ratio_N.detach(), out.clipped_N.detach())

    def sequence_term(log_ratios_N: Tensor, advantages_N: Tensor, options: jobs.PolicyGradient) -> Tensor:
        def term() -> Tensor:
            found = one.sequence_term(log_ratios_N, advantages_N, options)
            return _column(found, log_ratios_N, "TOKEN_LOSS.sequence_term")

        return guard.call(term)

    return replace(one, name=CUSTOM, wire=None, losses=losses, sequence_term=sequence_term)


def _of_tokens(out: TokenLossOutput, logprobs_N: Tensor) -> TokenLossOutput:
    if not isinstance(out, TokenLossOutput):
        raise TypeError(f"TOKEN_LOSS.losses gave a {type(out).__name__}, a TokenLossOutput is needed")
    _column(out.losses_N, logprobs_N, "TOKEN_LOSS.losses: losses_N")
    _column(out.ratio_N, logprobs_N, "TOKEN_LOSS.losses: ratio_N")
    if logprobs_N.requires_grad and torch.is_grad_enabled() and not out.losses_N.requires_grad:
        raise ValueError("TOKEN_LOSS.losses: losses_N has no gradient, since it is not made from logprobs_N")
    if out.clipped_N.shape != logprobs_N.shape or out.clipped_N.dtype != torch.bool:
        raise ValueError(f"TOKEN_LOSS.losses: clipped_N must be of torch.bool and shape {tuple(logprobs_N.shape)}")
    return out


def _column(found: Tensor, like_N: Tensor, of: str) -> Tensor:
    if not isinstance(found, Tensor) or found.shape != like_N.shape or found.dtype != like_N.dtype:
        given = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(f"{of} must be a tensor of {like_N.dtype} and shape {tuple(like_N.shape)}, not {given}")
    if not found.isfinite().all():
        raise ValueError(f"{of} has a number that is not finite")
    return found


@dataclass(frozen=True)
class _Backward:
    """The module's part of the graph: from its log-probabilities to its losses."""

    logprobs_N: Tensor
    losses_N: Tensor
    guard: Guard

    def gradient(self, of_losses_N: Tensor) -> Tensor:
        def gradient() -> Tensor:
            (found,) = torch.autograd.grad(self.losses_N, self.logprobs_N, of_losses_N)
            return _column(found, self.logprobs_N, "TOKEN_LOSS.losses: the gradient")

        return self.guard.call(gradient)


class _WithGradient(torch.autograd.Function):
    """The losses as they are; their gradient is taken under the guard, since it may be the module's own code."""

    @staticmethod
    def forward(ctx: Any, logprobs_N: Tensor, own: _Backward) -> Tensor:
        ctx.own = own
        return own.losses_N.detach()

    @staticmethod
    def backward(ctx: Any, *of_losses_N: Tensor) -> tuple[Tensor, None]:
        return ctx.own.gradient(of_losses_N[0]), None
