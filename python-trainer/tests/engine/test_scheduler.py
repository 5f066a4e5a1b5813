# SPDX-License-Identifier: Apache-2.0
"""Block pool and scheduler without HTTP: sharing, eviction, preemption, and no leak under any sequence of events."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whetstone_engine.kv_cache import BLOCK, BlockPool, OutOfBlocks
from whetstone_engine.pace import Pace
from whetstone_engine.runner import Runner
from whetstone_engine.scheduler import Scheduler
from whetstone_engine.sequence import Output, SamplingParams, Sequence
from whetstone_engine.slots import SlotTable
from whetstone_models.folder import load_model


def raw(tokens: list[int]) -> bytes:
    return np.array(tokens, np.int64).tobytes()


def test_prefixes_are_shared_by_content_parent_and_salt() -> None:
    pool = BlockPool(20)
    tokens = list(range(50))
    first, cached = pool.take(raw(tokens), 50, "", 8)
    assert (len(first), cached) == (4, 0)
    second, cached = pool.take(raw(tokens), 50, "", 8)
    assert (second[:3], cached) == (first[:3], 48)
    assert second[3] != first[3]
    assert pool.take(raw(tokens), 50, "salt", 8)[1] == 0
    assert pool.take(raw([9, *tokens[1:]]), 50, "", 8)[1] == 0  # equal later blocks, another first one


def test_the_last_token_is_never_cached() -> None:
    pool = BlockPool(20)
    pool.take(raw(list(range(32))), 32, "", 8)
    assert pool.take(raw(list(range(32))), 32, "", 8)[1] == 16
    assert pool.take(raw(list(range(33))), 33, "", 8)[1] == 32


def test_a_full_pool_refuses_and_changes_nothing() -> None:
    pool = BlockPool(4)
    pool.take(raw(list(range(40))), 40, "", 8)
    free = pool.free
    with pytest.raises(OutOfBlocks):
        pool.take(raw(list(range(100, 140))), 40, "", 8)
    assert pool.free == free


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 90), st.integers(0, 2)), max_size=60))
def test_blocks_never_leak_and_are_never_owned_twice(script: list[tuple[int, int, int]]) -> None:
    """Model: a block is writable by one holder only; the cached prefix holds the content that was stored there."""
    pool, held = BlockPool(24), []
    content: dict[int, bytes] = {}
    for action, length, variant in script:
        if action == 0 and held:
            pool.release(held.pop(length % len(held)))
        elif action == 1 and variant == 0:
            pool.reset_cache()
        else:
            data = raw([(variant * 7 + i // 16) % 3 for i in range(length)])
            try:
                blocks, cached = pool.take(data, length, "", 8)
            except OutOfBlocks:
                continue
            for index, block in enumerate(blocks):
                part = data[index * BLOCK * 8 : (index + 1) * BLOCK * 8]
                if index * BLOCK < cached:
                    assert content[block] == part
                else:
                    assert not any(block in other for other in held)
                    content[block] = part
            held.append(blocks)
    for blocks in held:
        pool.release(blocks)
    assert (pool.free, pool.usage) == (24, 0.0)


@pytest.fixture
def small(models: tuple[Path, Path]) -> tuple[Scheduler, Runner]:
    """An engine core with 15 blocks of cache and 6 slots: both run out at once."""
    runner = Runner(load_model(models[0]).fuse(), 15)
    return Scheduler(SlotTable(6, 200), BlockPool(15), 200, (260,), Pace(4096)), runner


def play(scheduler: Scheduler, runner: Runner, steps: int = 10_000) -> None:
    for _ in range(steps):
        batch = scheduler.schedule() if scheduler.runnable else None
        if batch is None:
            return
        scheduler.commit(batch, *runner.step(scheduler.table, batch))


def request(prompt: list[int], count: int, sink: list[Output], seed: int = 0) -> Sequence:
    params = SamplingParams(max_tokens=count, seed=seed, temperature=1.0, ignore_eos=True, logprobs=0)
    return Sequence(f"r{seed}", prompt, params, sink.append)


def outputs(scheduler: Scheduler) -> dict[str, Output]:
    return {sequence.request_id: output for sequence, output in scheduler.events if output.finish_reason}


def test_preempted_requests_give_the_same_answers(small: tuple[Scheduler, Runner]) -> None:
    scheduler, runner = small
    rnd = random.Random(3)
    prompts = [[rnd.randrange(256) for _ in range(rnd.randrange(3, 60))] for _ in range(14)]
    for seed, prompt in enumerate(prompts):
        scheduler.waiting.append(request(prompt, 60, [], seed))
    play(scheduler, runner)
    assert scheduler.counters.preemptions > 0
    crowded = outputs(scheduler)
    for seed, prompt in enumerate(prompts):
        scheduler.events = []
        scheduler.waiting.append(request(prompt, 60, [], seed))
        play(scheduler, runner)
        alone = outputs(scheduler)[f"r{seed}"]
        assert crowded[f"r{seed}"].token_ids == alone.token_ids
        assert crowded[f"r{seed}"].logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert scheduler.pool.usage == 0.0
    assert len(scheduler.table.free) == 6


@settings(max_examples=100, deadline=None)
@given(
    script=st.lists(
        st.sampled_from(["add", "step", "step", "abort", "pause", "resume", "preempt", "reset"]),
        min_size=12,
        max_size=60,
    )
)
def test_nothing_is_lost_whatever_happens(models: tuple[Path, Path], script: list[str]) -> None:
    """Every request ends exactly once, and slots, blocks and streams return to zero (I9)."""
    torch.set_num_threads(1)
    scheduler = Scheduler(SlotTable(3, 64), BlockPool(6), 64, (260,), Pace(64))
    runner = Runner(load_model(models[0]).fuse(), 6)
    added: list[Sequence] = []
    for number, action in enumerate(script):
        if action == "add":
            sequence = request([65 + number % 3] * (5 + 7 * (number % 6)), 1 + number % 19, [], number)
            sequence.stream = number % 2 == 0
            added.append(sequence)
            scheduler.waiting.append(sequence)
        elif action == "step":
            play(scheduler, runner, 1)
        elif action == "abort" and added:
            scheduler.abort([added[number % len(added)]])
        elif action in ("pause", "resume"):
            scheduler.paused = action == "pause"
        elif action == "preempt":
            scheduler.preempt_all()
        elif action == "reset":
            scheduler.pool.reset_cache()
    scheduler.paused = False
    play(scheduler, runner)
    ended = [sequence.request_id for sequence, output in scheduler.events if output.finish_reason]
    assert sorted(ended) == sorted(sequence.request_id for sequence in added)
    assert (len(scheduler.table.free), scheduler.pool.free, scheduler._streams) == (3, 6, 0)
    for sequence in added:
        parts = [output for owner, output in scheduler.events if owner is sequence]
        total = sum(len(part.token_ids) for part in parts)
        assert parts[-1].versions == ([("default", 0, total)] if total else [])


def test_a_failed_step_ends_its_requests_and_empties_the_cache(small: tuple[Scheduler, Runner]) -> None:
    scheduler, runner = small
    scheduler.waiting.append(request([65] * 40, 5, []))
    play(scheduler, runner, 2)
    scheduler.fail("step failed: Test")
    ((_, output),) = [event for event in scheduler.events if event[1].finish_reason]
    assert (output.finish_reason, output.error) == ("error", "step failed: Test")
    assert scheduler.pool.take(raw([65] * 40), 40, "", 8)[1] == 0
