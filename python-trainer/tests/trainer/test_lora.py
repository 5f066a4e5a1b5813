# SPDX-License-Identifier: Apache-2.0
"""A low-rank adapter: trained as peft trains it, published merged and by itself, and nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compute_device import DEVICE
from safetensors.torch import load_file
from test_gradients import SETTINGS, adam, make_rows, scores
from test_hugging_face import random_model
from test_reference import trained
from test_whole_step import LOSSES, OPTIONS, flat, logprobs
from trainer_kit import UID, Sampler, demonstration, dpo_spec, group, grpo_spec, lora_spec, sft_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.errors import WeightsError
from whetstone_models.folder import load_model
from whetstone_models.hugging_face import load_causal_lm
from whetstone_models.manifest import verify_manifest
from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.hugging_face_policy import HuggingFacePolicy
from whetstone_trainer.backends.local.learner import train_rows
from whetstone_trainer.backends.local.lora import Adapter
from whetstone_trainer.backends.local.optimizer import make_optimizer
from whetstone_trainer.backends.local.policy import Policy, TransformerPolicy, WithBody, load_policy
from whetstone_trainer.batch.rows import Row
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.contract.rules import with_defaults
from whetstone_trainer.contract.settings import AlgorithmSettings, parse_settings
from whetstone_trainer.service.run import JobRun, untold
from whetstone_trainer.weights.run_folder import RunFolder

PREFIX = "base_model.model."
EVERY = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
POLICIES: dict[str, Callable[[Path], WithBody]] = {
    "ours": lambda path: TransformerPolicy(load_model(path)),
    "transformers": lambda path: HuggingFacePolicy(load_causal_lm(path)),
}


def with_adapter(policy: WithBody, base: Path, **settings: Any) -> WithBody:
    lora = with_defaults(jobs.Lora(**{"rank": 4, "alpha": 8, **settings}))
    policy.adapter = Adapter(policy.module, policy.body, lora, 3, base)
    return policy


def moved(policy: Policy) -> Policy:
    """As after a step: B is not zero any more."""
    torch.manual_seed(2)
    with torch.no_grad():
        for name, one in policy.module.named_parameters():
            if name.endswith("lora_B"):
                one.normal_(std=0.1)
    return policy


def start(spec: jobs.JobSpec, run: Path) -> JobRun:
    model = Path(spec.model.path)
    return JobRun(parse_settings(spec), RunFolder(run, model), UID, LocalBackend(DEVICE, torch.float32), untold)


@pytest.mark.parametrize("kind", sorted(POLICIES))
@pytest.mark.parametrize("targets", [[], ["q_proj", "mlp.down_proj"]])
def test_two_steps_are_the_naive_ones(model_path: Path, tmp_path: Path, kind: str, targets: list[str]) -> None:
    """In float64, a loop over rows, W + alpha / rank * B * A written out. The first step moves B, the second A, too."""
    policy = with_adapter(POLICIES[kind](model_path), model_path, alpha=32, target_modules=targets)
    policy.write(tmp_path / "v0", 0, model_path)
    start = adapter_in(tmp_path / "v0")
    naive = {name: one.clone().requires_grad_() for name, one in start.items()}
    base = load_causal_lm(model_path).double()
    weights = {name: one.detach() for name, one in base.named_parameters()}

    def model(ids: torch.Tensor) -> Any:
        whole = dict(weights)
        for name in {name.rsplit(".", 2)[0] for name in naive}:
            product = naive[f"{name}.lora_B.weight"] @ naive[f"{name}.lora_A.weight"]
            whole[f"{name.removeprefix(PREFIX)}.weight"] = weights[f"{name.removeprefix(PREFIX)}.weight"] + 8 * product
        return torch.func.functional_call(base, whole, (ids,))

    require_two_steps(policy, model, naive, start)
    assert {name.split(".")[-3] for name in naive} == {one.split(".")[-1] for one in targets or EVERY}


def require_two_steps(
    policy: Policy, model: Any, naive: dict[str, torch.Tensor], start: dict[str, torch.Tensor]
) -> None:
    """The adapter agrees with `naive`, what `model` is computed with, to 1e-6; what was added to it to 1e-4 of that."""
    rows = make_rows(9)
    algorithm = AlgorithmSettings("x", "rloo", "reinforce", "token-mean", options=OPTIONS)
    settings = replace(SETTINGS, algorithm=algorithm, optimizer=adam(learning_rate=1, gradient_clip=1e9))
    own = [one for one in policy.module.parameters() if one.requires_grad]
    for step in range(2):
        train_rows(policy, torch.optim.SGD(own), rows, settings, step, lambda share: None)
        descend(model, rows, list(naive.values()))
    assert policy.adapter is not None
    ours = {name: one.detach().double() for name, one in policy.adapter.tensors().items()}
    assert ours.keys() == naive.keys()
    for part in ("lora_A", "lora_B"):
        found, right, before = (
            flat({name: one.detach() for name, one in tensors.items() if part in name})
            for tensors in (ours, naive, start)
        )
        assert (found - right).norm() < 1e-6 * right.norm()
        assert (right - before).norm() > 1e-3
        assert (found - right).norm() < 1e-4 * (right - before).norm()


def adapter_in(folder: Path) -> dict[str, torch.Tensor]:
    return {name: one.double() for name, one in load_file(folder / "adapter" / "adapter_model.safetensors").items()}


def descend(model: Any, rows: list[Row], parameters: list[torch.Tensor]) -> None:
    """A step of plain gradient descent with rate 1."""
    count = sum(len(row.positions) for row in rows)
    for row in rows:
        advantages_K = torch.from_numpy(row.advantages).double()
        losses_K = LOSSES["reinforce"](logprobs(model, row), torch.from_numpy(row.old_logprobs), advantages_K)
        (losses_K.sum() / count).backward()
    with torch.no_grad():
        for one in parameters:
            assert one.grad is not None
            one -= one.grad
            one.grad = None


def test_the_start_is_peft_s_and_follows_from_the_seed(model_path: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        with_adapter(POLICIES["ours"](model_path), model_path).write(tmp_path / name, 0, model_path)
    first, second = (load_file(tmp_path / name / "adapter" / "adapter_model.safetensors") for name in ("a", "b"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    for name, tensor in first.items():
        if "lora_B" in name:
            assert not tensor.any()
        else:
            # Kaiming's with a = sqrt(5): uniform up to 1 / sqrt(inputs).
            bound = tensor.shape[1] ** -0.5
            assert 0.9 * bound < float(tensor.abs().max()) <= bound


@pytest.mark.parametrize(
    ("family", "extra"),
    [
        ("Llama", {}),
        ("GPTNeoX", {}),
        # Its file names the experts' weights otherwise than the model.
        ("Qwen3Moe", {
            "num_key_value_heads": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
        }),
    ],
)  # fmt: skip
def test_what_is_published_computes_the_same_merged(family: str, extra: dict[str, Any], tmp_path: Path) -> None:
    base = random_model(family, tmp_path / "model", **extra)
    policy, rows = moved(with_adapter(load_policy(base, torch.float32, DEVICE), base)), make_rows(8)
    policy.write(tmp_path / "v1", 1, base)
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("model", "v1")]
    assert {name: one.shape for name, one in stored[0].items()} == {name: one.shape for name, one in stored[1].items()}
    served = load_policy(tmp_path / "v1", torch.float32, DEVICE)
    start, on = scores(load_policy(base, torch.float32, DEVICE), rows), scores(policy, rows)
    of_served = scores(served, rows)
    assert max(np.abs(start[row.episode] - on[row.episode]).max() for row in rows) > 1e-2
    for row in rows:
        np.testing.assert_allclose(of_served[row.episode], on[row.episode], atol=1e-5)


def test_only_the_adapter_is_trained_and_kept(model_path: Path, tmp_path: Path, sampler: Sampler) -> None:
    whole, lora = (start(make(model_path), tmp_path / name) for name, make in (("f", grpo_spec), ("l", lora_spec)))
    for run in (whole, lora):
        trained(run, group(sampler), 1)
    assert lora.model.parameters < whole.model.parameters / 2
    states = [run.folder.checkpoint(1) / "optimizer.pt" for run in (whole, lora)]
    numbers = [
        sum(one.numel() for state in torch.load(path)["optimizer"]["state"].values() for one in state.values())
        for path in states
    ]
    # Two numbers a parameter and its count of steps.
    assert [round(count / 2, -2) for count in numbers] == [round(run.model.parameters, -2) for run in (whole, lora)]
    folder = lora.folder.weights(1)
    listed = {entry.name for entry in verify_manifest(folder).files}
    assert {"adapter/adapter_config.json", "adapter/adapter_model.safetensors"} <= listed
    adapted = load_file(folder / "model.safetensors")
    for name, tensor in load_file(model_path / "model.safetensors").items():
        assert torch.equal(tensor, adapted[name]) == ("proj" not in name), name
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (4, 8.0, 0.0)


def test_a_damaged_adapter_is_noticed(model_path: Path, tmp_path: Path, sampler: Sampler) -> None:
    run = start(lora_spec(model_path), tmp_path / "run")
    trained(run, group(sampler), 1)
    path = run.folder.weights(1) / "adapter" / "adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(TrainerError, match=r"adapter/adapter_model\.safetensors: content differs"):
        start(lora_spec(model_path), tmp_path / "run")


def test_a_file_that_does_not_fit_changes_nothing(model_path: Path, tmp_path: Path) -> None:
    moved(with_adapter(POLICIES["ours"](model_path), model_path, rank=2)).write(tmp_path / "v1", 1, model_path)
    policy = with_adapter(POLICIES["ours"](model_path), model_path)
    before = {name: one.clone() for name, one in policy.module.named_parameters()}
    with pytest.raises(WeightsError, match=r"lora_A.weight: has shape \[2, 32\], expected \[4, 32\]"):
        policy.read(tmp_path / "v1")
    with pytest.raises(WeightsError, match="cannot be read"):
        policy.read(tmp_path)
    assert all(torch.equal(one, before[name]) for name, one in policy.module.named_parameters())


@pytest.mark.parametrize("algorithm", ["policyGradient", "sft", "dpo"])
def test_every_algorithm_goes_on_from_a_checkpoint_bit_for_bit(
    algorithm: str, model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    make: dict[str, Callable[[Path], jobs.JobSpec]] = {
        "policyGradient": with_kl, "sft": sft_spec, "dpo": dpo_spec
    }  # fmt: skip
    spec = make[algorithm](model_path)
    spec.model.lora.MergeFrom(jobs.Lora(rank=4))
    pairs = [demonstration(index, [256, 65, 257], [70 + index, 260]) for index in range(2)]
    for index, one in enumerate(pairs):
        one.group, one.sample, one.id, one.reward = "g0", index, f"toy/g0/s{index}", 1.0 - index
    episodes = group(sampler) if algorithm == "policyGradient" else pairs if algorithm == "dpo" else pairs[:1]
    undisturbed = start(spec, tmp_path / "whole")
    metrics = trained(undisturbed, episodes, 3)
    assert metrics[-1]["loss"] != metrics[0]["loss"]
    trained(start(spec, tmp_path / "parts"), episodes, 2)
    again = start(spec, tmp_path / "parts")
    assert again.step == 2
    assert trained(again, episodes, 1)[0]["loss"] == metrics[2]["loss"]
    assert again.weights().manifest_digest == undisturbed.weights().manifest_digest


def with_kl(model_path: Path) -> jobs.JobSpec:
    """Tokens of version 0 stay within the window, so that it is computed anew after a restart."""
    spec = grpo_spec(model_path, max_policy_lag=8, mismatch_share=1.0)
    spec.algorithm.policy_gradient.kl.coefficient = 0.1
    return spec


def test_reference_and_older_versions_share_the_base(model_path: Path, tmp_path: Path, sampler: Sampler) -> None:
    spec = with_kl(model_path)
    spec.model.lora.MergeFrom(jobs.Lora(rank=4))
    run = start(spec, tmp_path / "run")
    first, *_, last = trained(run, group(sampler), 3)
    assert first["kl/reference_bytes"] == 0
    # At the start both are the same, then the reference stays behind.
    assert abs(first["kl/reference"]) < 1e-7 < last["kl/reference"]
    assert last["logprob_diff/max"] < 1e-5
    whole = trained(start(with_kl(model_path), tmp_path / "whole"), group(sampler), 1)
    assert whole[0]["kl/reference_bytes"] > 0


@pytest.mark.parametrize(
    ("lora", "refusal"),
    [
        (
            {"rank": 33},
            r"model.lora.rank: must be at most 32, the smallest dimension of model.layers.0.self_attn.q_proj",
        ),
        ({"rank": 0}, r"model.lora.rank: must be from 1 to 65536, got 0"),
        (
            {"target_modules": ["q_proj", "query"]},
            r'model.lora.targetModules\[1\]: the model has no linear layer "query"; it has down_proj, gate_proj',
        ),
        # An adapter of the head would part it from the embedding that it is tied to.
        ({"target_modules": ["lm_head"]}, r'model.lora.targetModules\[0\]: the model has no linear layer "lm_head"'),
    ],
)
def test_what_cannot_be_is_refused_by_path(
    lora: dict[str, Any], refusal: str, model_path: Path, tmp_path: Path
) -> None:
    spec = grpo_spec(model_path)
    spec.model.lora.MergeFrom(jobs.Lora(**lora))
    with pytest.raises(SettingsError, match=refusal):
        start(spec, tmp_path / "run")


def test_a_model_without_linear_layers_is_refused(tmp_path: Path) -> None:
    policy = HuggingFacePolicy(load_causal_lm(random_model("GPT2", tmp_path / "model", "GPT2LMHeadModel")))
    with pytest.raises(SettingsError, match="the model has no linear layer that an adapter"):
        with_adapter(policy, tmp_path / "model")


def test_the_optimizer_holds_the_adapter_alone(model_path: Path) -> None:
    policy = with_adapter(POLICIES["ours"](model_path), model_path)
    (held,) = make_optimizer(policy.module, adam()).param_groups
    assert {id(one) for one in held["params"]} == {
        id(one) for name, one in policy.module.named_parameters() if "lora_" in name
    }
