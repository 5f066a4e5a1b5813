# SPDX-License-Identifier: Apache-2.0
"""Long prompts are computed in parts: others go on meanwhile, none starves, and the answers are the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from whetstone_engine.engine import Engine, EngineOptions
from whetstone_engine.kv_cache import BlockPool
from whetstone_engine.pace import LEAST_TOKENS, TARGET_S, Pace
from whetstone_engine.runner import Runner
from whetstone_engine.scheduler import Batch, Scheduler
from whetstone_engine.sequence import Output, SamplingParams, Sequence
from whetstone_engine.slots import SlotTable
from whetstone_engine.step_loop import StepLoop
from whetstone_models.folder import load_model

BLOCKS, SLOTS = 600, 12


class Fixed(Pace):
    """Always the same allowance: what a step takes does not matter."""

    def __init__(self, units: float) -> None:
        super().__init__(4096)
        self.units = units

    def allowance(self, sampling_work: float) -> float:
        return self.units


class Core:
    """Scheduler and model without HTTP. `parts` are the computed tokens of each step: (request, start, end)."""

    def __init__(self, folder: Path, units: float = 64.0, runner: type[Runner] = Runner) -> None:
        self.scheduler = Scheduler(SlotTable(SLOTS, 1000), BlockPool(BLOCKS), 1000, (260,), Fixed(units))
        self.loop = StepLoop(self.scheduler, runner(load_model(folder).fuse(), BLOCKS), 100)
        self.parts: list[list[tuple[str, int, int]]] = []
        self.loop.runner.step = self._noted(self.loop.runner.step)

    def _noted(self, step: Callable[..., Any]) -> Any:
        def noted(table: SlotTable, batch: Batch) -> Any:
            names = {sequence.slot: sequence.request_id for sequence in self.scheduler.running}
            rows = zip(batch.slots.tolist(), batch.starts.tolist(), batch.ends.tolist(), strict=True)
            self.parts.append([(names[slot], start, end) for slot, start, end in rows])
            return step(table, batch)

        return noted

    def add(self, name: str, prompt: list[int], count: int = 1, seed: int = 1) -> Sequence:
        params = SamplingParams(max_tokens=count, seed=seed, temperature=1.0, ignore_eos=True, logprobs=0)
        sequence = Sequence(name, prompt, params, lambda output: None)
        self.scheduler.waiting.append(sequence)
        return sequence

    def steps(self, count: int = 10_000) -> int:
        """Plays; returns how many steps there were."""
        for done in range(count):
            if not self.scheduler.runnable:
                return done
            self.loop._step()
        return count

    @property
    def outputs(self) -> dict[str, Output]:
        return {sequence.request_id: output for sequence, output in self.scheduler.events if output.finish_reason}

    def computed(self, name: str) -> list[tuple[int, int]]:
        return [(start, end) for step in self.parts for who, start, end in step if who == name]


def tokens(count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(256), k=count)


def offline(folder: Path, prompt: list[int], answer: list[int]) -> list[float]:
    """Log-probabilities of an answer, from one pass over all of it."""
    with torch.no_grad():
        logits = load_model(folder)(torch.tensor([prompt + answer]))[0]
    scores = logits[len(prompt) - 1 : -1].log_softmax(-1)
    return scores.gather(1, torch.tensor(answer)[:, None])[:, 0].tolist()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_answers_are_those_of_whole_prompts(models: tuple[Path, Path], data: Any) -> None:
    """Whatever a step allows, whoever shares a beginning, and whoever arrives in between."""
    core = Core(models[0], data.draw(st.sampled_from([1.0, 100.0, 333.0, 4096.0])))
    shared, prompts = tokens(300, 1), dict[str, list[int]]()
    for number in range(data.draw(st.integers(1, 6))):
        begins = shared[: data.draw(st.sampled_from([0, 15, 16, 200, 300]))]
        prompts[f"r{number}"] = [*begins, *tokens(data.draw(st.sampled_from([1, 16, 40, 150, 400])), number)]
        core.add(f"r{number}", prompts[f"r{number}"], 4, number)
        core.steps(data.draw(st.integers(0, 4)))
    core.steps()
    assert set(core.outputs) == set(prompts)
    for name, output in core.outputs.items():
        assert output.logprobs == pytest.approx(offline(models[0], prompts[name], output.token_ids), abs=1e-4)
        # Each token of a prompt is computed at most once by its request, in order.
        parts = core.computed(name)
        assert all(end <= start for (_, end), (start, _) in pairwise(parts))
    assert (core.scheduler.pool.free, len(core.scheduler.table.free), len(core.scheduler.prompts)) == (BLOCKS, SLOTS, 0)


def test_whoever_samples_goes_on_while_a_long_prompt_comes_in(models: tuple[Path, Path]) -> None:
    core = Core(models[0])
    for number in range(3):
        core.add(f"stream-{number}", tokens(20, number), 100)
    core.steps(2)
    core.parts.clear()
    core.add("long", tokens(900, 9))
    core.steps(14)
    for step in core.parts:
        assert {name for name, *_ in step} == {"stream-0", "stream-1", "stream-2", "long"}
        assert sum(end - start for name, start, end in step if name == "long") <= LEAST_TOKENS


def test_a_short_prompt_passes_a_long_one(models: tuple[Path, Path]) -> None:
    core = Core(models[0], 128.0)
    core.add("long", tokens(900, 1))
    core.steps(2)
    core.add("short", tokens(40, 2))
    core.steps(1)
    assert "short" in core.outputs
    assert "long" not in core.outputs


def test_long_prompts_share_a_step_and_none_starves(models: tuple[Path, Path]) -> None:
    core = Core(models[0], 128.0)
    for number in range(3):
        core.add(f"long-{number}", tokens(900, number))
    core.steps(9)
    done = [sum(end - start for start, end in core.computed(f"long-{number}")) for number in range(3)]
    assert max(done) - min(done) <= LEAST_TOKENS
    assert min(done) >= 300
    for number in range(60):  # new short ones in every step, as many as it has room for
        core.add(f"short-{number}", tokens(60, 100 + number))
        core.add(f"more-{number}", tokens(60, 200 + number))
        core.steps(1)
    assert {"long-0", "long-1", "long-2"} <= set(core.outputs)


def test_prompts_that_begin_alike_are_computed_once(models: tuple[Path, Path]) -> None:
    core = Core(models[0], 600.0)
    shared = tokens(640, 1)
    for number in range(8):
        core.add(f"r{number}", [*shared, number])
    core.steps()
    computed = sum(end - start for step in core.parts for _, start, end in step)
    assert computed == 640 + 8
    assert len(core.outputs) == 8


@pytest.mark.parametrize("way", ["abort", "preempt"])
def test_others_go_on_where_one_of_them_has_left_a_shared_prompt(models: tuple[Path, Path], way: str) -> None:
    core = Core(models[0])
    prompt = tokens(640, 1)
    first = core.add("first", [*prompt, 1], 3)
    core.add("second", [*prompt, 2], 3)
    core.steps(4)
    before = sum(end - start for step in core.parts for _, start, end in step)
    assert 0 < before < 640
    if way == "abort":
        core.scheduler.abort([first])
        assert (core.outputs["first"].token_ids, core.outputs["first"].versions) == ([], [])
    else:
        core.scheduler._preempt(first)
    core.steps()
    prompts = sum(end - start for step in core.parts for _, start, end in step if end - start > 1)
    assert prompts == 640
    answer = core.outputs["second"]
    assert answer.logprobs == pytest.approx(offline(models[0], [*prompt, 2], answer.token_ids), abs=1e-4)
    assert core.scheduler.pool.free == BLOCKS


class Choosy(Runner):
    """Cannot compute any part of a prompt whose last token is 1."""

    def step(self, table: SlotTable, batch: Batch) -> Any:
        if (table.tokens[batch.slots, table.length[batch.slots] - 1] == 1).any():
            raise RuntimeError("bad")
        return super().step(table, batch)


def test_a_part_that_could_not_be_computed_is_computed_by_who_shares_it(models: tuple[Path, Path]) -> None:
    core = Core(models[0], 64.0, Choosy)
    prompt = tokens(400, 1)
    core.add("bad", [*prompt, 1], 2)
    core.add("good", [*prompt, 2], 2)
    core.steps()
    assert core.outputs["bad"].error == "step failed: RuntimeError"
    good = core.outputs["good"]
    assert good.error is None
    assert good.logprobs == pytest.approx(offline(models[0], [*prompt, 2], good.token_ids), abs=1e-4)
    assert core.scheduler.pool.free == BLOCKS


@pytest.fixture
def engine(models: tuple[Path, Path]) -> Engine:
    """An engine whose steps the test plays, so that a command falls into the middle of a prompt."""
    engine = Engine(EngineOptions(models[0]))
    pace = Fixed(64.0)
    engine.scheduler.pace = engine.scheduler.prompts._pace = pace
    return engine


@pytest.mark.parametrize("mode", ["keep", "wait"])
@pytest.mark.parametrize("clear", [True, False])
def test_new_weights_in_the_middle_of_a_prompt(
    engine: Engine, models: tuple[Path, Path], mode: str, clear: bool
) -> None:
    """Frozen and gone on: the new weights compute all of the prompt. With `wait` the old ones finish the request."""
    prompt = tokens(500, 1)
    params = SamplingParams(max_tokens=5, seed=3, temperature=1.0, ignore_eos=True, logprobs=0)
    scheduler = engine.scheduler
    scheduler.waiting.append(Sequence("r", prompt, params, lambda output: None))
    for _ in range(3):
        engine.steps._step()
    assert len(scheduler.prompts) == 1
    engine._begin_pause(mode)
    while scheduler.draining and scheduler.running:
        engine.steps._step()
    engine._end_pause(mode, clear)
    engine._swap(load_model(models[1]).eval().requires_grad_(False).fuse())
    scheduler.set_label("b")
    assert not scheduler.runnable
    engine._resume()
    while scheduler.runnable:
        engine.steps._step()
    ((_, output),) = [event for event in scheduler.events if event[1].finish_reason]
    label, folder = ("default", models[0]) if mode == "wait" else ("b", models[1])
    assert output.versions == [(label, 0, 5)]
    assert output.logprobs == pytest.approx(offline(folder, prompt, output.token_ids), abs=1e-4)
    assert scheduler.pool.usage == 0.0


def test_a_label_set_in_the_middle_of_a_prompt_is_that_of_its_tokens(models: tuple[Path, Path]) -> None:
    core = Core(models[0])
    core.add("r", tokens(300, 1), 4)
    core.steps(2)
    core.scheduler.set_label("next")
    core.steps()
    assert core.outputs["r"].versions == [("next", 0, 4)]


@given(cost=st.sampled_from([0.0, 0.0015, 0.1]), start=st.integers(0, 40_000), work=st.floats(1.0, 1e6))
def test_tokens_of_work_invert_the_work_of_tokens(cost: float, start: int, work: float) -> None:
    pace = Pace(2048, cost)
    count = pace.tokens(start, work)
    assert pace.work(start, start + count) <= work * (1 + 1e-6)
    assert pace.work(start, start + count + 2) > work


def test_the_pace_follows_what_steps_take() -> None:
    """Prompts take a step as long as the target, or as sampling takes if that is longer."""
    pace = Pace(2048, 0.001)
    assert pace.allowance(0.0) <= 4 * LEAST_TOKENS
    for _ in range(40):
        pace.observe(0.0, 10.0, 0.01)  # 1 ms a unit of sampling
        pace.observe(100.0, 10.0, 0.03)  # so 0.2 ms a unit of prompts
    assert pace.allowance(10.0) == pytest.approx(TARGET_S / 0.0002, rel=0.01)
    assert pace.allowance(200.0) == pytest.approx(0.2 / 0.0002, rel=0.01)
    for _ in range(40):
        pace.observe(100.0, 10.0, 0.11)  # the machine has become slower
    assert pace.allowance(0.0) == pytest.approx(TARGET_S / 0.001, rel=0.01)
