# SPDX-License-Identifier: Apache-2.0
"""Versions in the engines' type and in shards: what is trained on keeps every digit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_hugging_face import random_model
from test_lora import start
from test_reference import trained
from trainer_kit import Sampler, group, grpo_spec, lora_spec
from whetstone.jobs.v1 import jobs_pb2 as jobs

from whetstone_models.folder import load_model
from whetstone_models.manifest import read_manifest, verify_manifest
from whetstone_trainer.contract.errors import SettingsError
from whetstone_trainer.service.run import JobRun

HALF = jobs.PublishedWeights(dtype=jobs.WEIGHTS_DTYPE_BFLOAT16, shard_mib=1)


def in_half(spec: jobs.JobSpec) -> jobs.JobSpec:
    spec.weights.CopyFrom(HALF)
    return spec


def masters(run: JobRun) -> dict[str, torch.Tensor]:
    job = run._backend._job  # pyright: ignore[reportAttributeAccessIssue]
    return {name: one.detach().clone() for name, one in job.policy.module.named_parameters()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one, second[name]) for name, one in first.items())


def test_it_publishes_bfloat16_and_goes_on_in_float32_bit_for_bit(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    spec = in_half(grpo_spec(model_path))
    undisturbed = start(spec, tmp_path / "whole")
    metrics = trained(undisturbed, group(sampler), 3)
    folder = Path(undisturbed.weights().path)
    assert {entry.dtype for entry in read_manifest(folder).tensors} == {"BF16"}
    assert same(masters(undisturbed), {n: p.float() for n, p in load_model(folder).named_parameters()}) is False
    trained(start(spec, tmp_path / "parts"), group(sampler), 2)
    again = start(spec, tmp_path / "parts")
    assert again.step == 2
    assert trained(again, group(sampler), 1)[0]["loss"] == metrics[2]["loss"]
    assert same(masters(again), masters(undisturbed))


def test_weights_of_a_step_that_was_cut_short_keep_the_finer_masters(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    """The folder of version 1 is there, its checkpoint is not: as after a kill between the two."""
    spec = in_half(grpo_spec(model_path))
    run = start(spec, tmp_path / "run")
    trained(run, group(sampler), 1)
    expected, digest = masters(run), run.weights().manifest_digest
    run.folder.discard(run.folder.checkpoint(1))
    again = start(spec, tmp_path / "run")
    assert again.step == 0
    trained(again, group(sampler), 1)
    assert again.weights().manifest_digest == digest
    assert same(masters(again), expected)


def test_an_adapter_is_merged_in_bfloat16_and_its_own_file_keeps_all(
    model_path: Path, tmp_path: Path, sampler: Sampler
) -> None:
    run = start(in_half(lora_spec(model_path)), tmp_path / "run")
    trained(run, group(sampler), 1)
    folder = run.folder.weights(1)
    verify_manifest(folder)
    assert {entry.dtype for entry in read_manifest(folder).tensors} == {"BF16"}
    again = start(in_half(lora_spec(model_path)), tmp_path / "run")
    assert same(masters(again), masters(run))


def test_a_model_that_transformers_holds_is_refused_by_path(tmp_path: Path) -> None:
    model = random_model("GPT2", tmp_path / "model", "GPT2LMHeadModel")
    with pytest.raises(SettingsError, match=r"weights.dtype: must be float32"):
        start(in_half(grpo_spec(model)), tmp_path / "run")
