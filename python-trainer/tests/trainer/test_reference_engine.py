# SPDX-License-Identifier: Apache-2.0
"""A teacher that is an engine: the numbers of its folder, over HTTP; what fails is repeated, then it is said."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from iep_target import start_engine
from test_reference import start, trained, weights
from trainer_kit import Sampler, group
from whetstone.jobs.v1 import jobs_pb2 as jobs
from whetstone.types.v1 import types_pb2 as types

from whetstone_models.init import init_model
from whetstone_trainer.contract.errors import SettingsError, TrainerError
from whetstone_trainer.service import reference_engine


class Flaky:
    """Stands before an engine: the next `faults` requests are answered HTTP 503, or with `answer`."""

    def __init__(self, engine: str) -> None:
        flaky, self.faults, self.answer, self.asked = self, 0, b"", 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, answer = flaky.answer_to(engine + self.path, body)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                # A step that has failed meanwhile does not wait for its other calls.
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(answer)

            def log_message(self, format: str, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer_to(self, url: str, body: bytes) -> tuple[int, bytes]:
        self.asked += 1
        if self.faults > 0:
            self.faults -= 1
            return (200, self.answer) if self.answer else (503, b"overloaded")
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as response:
                return 200, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "teacher"
    init_model(path, seed=9, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, initializer_range=0.2)
    return path


@pytest.fixture(scope="module")
def engine(teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flaky]:
    with start_engine(teacher, tmp_path_factory.mktemp("log") / "engine.log") as (url, _):
        flaky = Flaky(url)
        yield flaky
        flaky.server.shutdown()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_engine, "FIRST_PAUSE_S", 0.01)


def distillation(model: str = "", engine: str = "") -> jobs.KlPenalty:
    place, k1 = jobs.KL_PLACE_ADVANTAGE, jobs.KL_ESTIMATOR_K1
    return jobs.KlPenalty(applied_to=place, estimator=k1, coefficient=1, model=model, engine=engine)


NONE = types.ADVANTAGE_ESTIMATOR_NONE


def test_an_engine_teaches_what_its_folder_does_though_it_fails_now_and_then(
    model_path: Path, tmp_path: Path, sampler: Sampler, teacher: Path, engine: Flaky
) -> None:
    of_folder = start(model_path, tmp_path / "folder", distillation(model=str(teacher)), advantage=NONE)
    of_engine = start(model_path, tmp_path / "engine", distillation(engine=engine.url), advantage=NONE)
    (expected,) = trained(of_folder, group(sampler), 1)
    engine.faults = 3
    (found,) = trained(of_engine, group(sampler), 1)
    assert engine.faults == 0
    assert found["kl/reference"] == pytest.approx(expected["kl/reference"], abs=1e-5)
    assert abs(found["kl/reference"]) > 1e-3
    assert "kl/reference_bytes" not in found
    assert (weights(of_engine) - weights(of_folder)).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("answer", "reason", "said"),
    [
        (b"", None, "gave no log-probabilities in 6 attempts; the last: HTTP 503: overloaded"),
        (b"<html>", None, "an answer that is no JSON"),
        (b'{"prompt_logprobs": null}', "ReferenceRefused", "does not return prompt_logprobs"),
    ],
)
def test_what_stays_without_an_answer_fails_the_step_and_moves_nothing(
    model_path: Path, tmp_path: Path, sampler: Sampler, engine: Flaky, answer: bytes, reason: str | None, said: str
) -> None:
    run = start(model_path, tmp_path / "run", distillation(engine=engine.url), advantage=NONE)
    before = weights(run)
    engine.faults, engine.answer = 10_000, answer
    try:
        with pytest.raises(TrainerError, match=reference_engine.SETTING) as caught:
            trained(run, group(sampler), 1)
    finally:
        engine.faults, engine.answer = 0, b""
    assert said in str(caught.value)
    # With a reason a failed job is not started once more.
    assert caught.value.context.get("reason") == reason
    assert run.step == 0
    assert torch.equal(weights(run), before)


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'{"prompt_logprobs": {}}',
        b'{"prompt_logprobs": [null]}',
        b'{"prompt_logprobs": [null, null]}',
        b'{"prompt_logprobs": [null, [1]]}',
        b'{"prompt_logprobs": [null, "text"]}',
        b'{"prompt_logprobs": [null, {"261": -1.5}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": "-1.5"}}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": null}}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": [0]}}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": NaN}}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": true}}]}',
        b'{"prompt_logprobs": [null, {"261": {"logprob": 1}}]}',
        b"[" * 100_000,
        b'{"prompt_logprobs": "\xff"}',
    ],
    ids=lambda answer: answer[:60].decode("latin1"),
)
def test_an_answer_of_an_odd_shape_is_refused_and_no_error_of_the_program(engine: Flaky, answer: bytes) -> None:
    engine.faults, engine.answer = 10_000, answer
    try:
        with pytest.raises(SettingsError, match=engine.url):
            reference_engine.ReferenceEngine(engine.url).require(262)
    finally:
        engine.faults, engine.answer = 0, b""


def test_an_engine_that_cannot_be_asked_or_has_other_ids_is_refused_by_its_field(
    model_path: Path, tmp_path: Path, engine: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError) as caught:
        start(model_path, tmp_path / "none", distillation(engine="http://127.0.0.1:1"), advantage=NONE)
    assert caught.value.violations[0]["path"] == "algorithm.policyGradient.kl.engine"
    for vocabulary, said in ((261, "has more than the 261 token ids"), (263, "out of vocabulary")):
        with pytest.raises(SettingsError, match=said):
            reference_engine.ReferenceEngine(engine.url).require(vocabulary)
