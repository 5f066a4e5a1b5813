# SPDX-License-Identifier: Apache-2.0
"""A reference that an engine holds: it is asked over HTTP how likely given ids are to it.

`prompt_logprobs` of /inference/v1/generate, in vLLM's form: at temperature 1, over the whole vocabulary. A call that
fails is repeated; what stays without an answer fails the step, and is never taken for 0.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np

from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError

SETTING = "algorithm.policyGradient.kl.engine"
ATTEMPTS, FIRST_PAUSE_S = 6, 0.5
# Of one sequence, waiting in the engine's queue included.
TIMEOUT_S = 120.0
IN_FLIGHT = 16
# What vLLM writes in place of a number that JSON does not have.
MISSING = -9999.0


class _Passing(Exception):
    """What may be over when the call is repeated."""


@dataclass(frozen=True)
class ReferenceEngine:
    """`url`: up to and without "/inference"."""

    url: str

    def require(self, vocabulary: int) -> None:
        """Raises SettingsError unless it answers, knows the job's ids, and no others."""
        try:
            asyncio.run(self._score([[0, vocabulary - 1]], lambda share: None))
        except TrainerError as error:
            raise SettingsError(SETTING, str(error)) from error
        try:
            asyncio.run(self._score([[0, vocabulary]], lambda share: None))
        except TrainerError:
            return
        raise SettingsError(SETTING, f"{self.url}: has more than the {vocabulary} token ids of the job's model")

    def log_probabilities(self, rows: Sequence[Row], on_share: Callable[[float], None]) -> list[np.ndarray]:
        """Of the trained tokens [K] of each row, float32. Raises TrainerError."""
        fed = [row.token_ids[: row.positions[-1] + 1] for row in rows]
        distinct = {ids.tobytes(): ids.tolist() for ids in fed}
        scored = asyncio.run(self._score(list(distinct.values()), on_share))
        found = dict(zip(distinct, scored, strict=True))
        return [found[ids.tobytes()][row.positions] for row, ids in zip(rows, fed, strict=True)]

    async def _score(self, sequences: Sequence[list[int]], on_share: Callable[[float], None]) -> list[np.ndarray]:
        gate = asyncio.Semaphore(IN_FLIGHT)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:

            async def one(token_ids: list[int]) -> np.ndarray:
                async with gate:
                    return await self._patiently(session, token_ids)

            tasks = [asyncio.create_task(one(token_ids)) for token_ids in sequences]
            try:
                for done, task in enumerate(asyncio.as_completed(tasks), 1):
                    await task
                    on_share(done / len(tasks))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            return [task.result() for task in tasks]

    async def _patiently(self, session: aiohttp.ClientSession, token_ids: list[int]) -> np.ndarray:
        last = ""
        for attempt in range(ATTEMPTS):
            try:
                return await self._ask(session, token_ids)
            except (_Passing, aiohttp.ClientError, TimeoutError) as error:
                last = repr(error) if str(error) == "" else str(error)
                if attempt < ATTEMPTS - 1:
                    await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
        raise TrainerError(
            "TRAINER_FAILED",
            f"{SETTING}: {self.url} gave no log-probabilities in {ATTEMPTS} attempts; the last: {last}. "
            "See that it runs and that the trainer reaches it; failurePolicy.maxRestarts starts a failed job again",
        )

    async def _ask(self, session: aiohttp.ClientSession, token_ids: list[int]) -> np.ndarray:
        """[T] float32; the first token has none and is NaN."""
        sampling = {"max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        body = {"token_ids": token_ids, "sampling_params": sampling}
        async with session.post(f"{self.url}/inference/v1/generate", json=body) as response:
            text = await response.text(errors="replace")
            if response.status == 429 or response.status >= 500:
                raise _Passing(f"HTTP {response.status}: {text[:200]}")
            if response.status != 200:
                raise self._refused(f"answered HTTP {response.status}: {text[:200]}")
        try:
            return self._read(json.loads(text), token_ids)
        except (ValueError, RecursionError) as error:
            raise _Passing(f"an answer that is no JSON: {text[:200]}") from error

    def _read(self, answer: Any, token_ids: list[int]) -> np.ndarray:
        entries = answer.get("prompt_logprobs") if isinstance(answer, dict) else None
        if not isinstance(entries, list) or len(entries) != len(token_ids):
            raise self._refused("does not return prompt_logprobs of every id")
        scored = [math.nan]
        for entry, token_id in zip(entries[1:], token_ids[1:], strict=True):
            logprob = _logprob_of(entry, token_id)
            if not MISSING < logprob <= 1e-3:
                raise self._refused(f"gave for token {token_id} no log-probability: {json.dumps(entry)[:200]}")
            scored.append(logprob)
        return np.array(scored, dtype=np.float32)

    def _refused(self, why: str) -> TrainerError:
        return TrainerError("TRAINER_FAILED", f"{SETTING}: {self.url} {why}", reason="ReferenceRefused")


def _logprob_of(entry: Any, token_id: int) -> float:
    """NaN: there is none, or it is no number."""
    of_token = entry.get(str(token_id)) if isinstance(entry, dict) else None
    logprob = of_token.get("logprob") if isinstance(of_token, dict) else None
    return logprob if isinstance(logprob, int | float) and not isinstance(logprob, bool) else math.nan
