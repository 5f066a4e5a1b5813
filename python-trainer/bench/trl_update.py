# SPDX-License-Identifier: Apache-2.0
"""One update of TRL's GRPOTrainer on a batch: its loss, backward pass, clipping and AdamW. One JSON line.

Generation is not counted. `old_logprobs_cpu_s` is its forward pass for old log-probabilities, which it makes in every
step that samples with vLLM (`GRPOTrainer._generate_and_score_completions`).
`trl_update.py MODEL SEQUENCES SCRATCH [--stored]`: the sequences as lines [prompt, answer]; --stored turns off the
activation checkpointing that is TRL's default. Rows a forward pass: TRL's default, eight.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset  # pyright: ignore[reportMissingImports]
from process_memory import load_libraries, peak_mib, resident_mib
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]

ROWS = 8


def main() -> None:
    model, sequences, scratch = sys.argv[1:4]
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in Path(sequences).read_text().splitlines()]
    load_libraries()
    empty = resident_mib()
    trainer = _trainer(model, scratch, stored="--stored" in sys.argv)
    net: Any = trainer.model
    net.train()
    if trainer.args.gradient_checkpointing:  # As `train` does.
        net.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-6)
    tokens = sum(len(answer) for _, answer in rows)
    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    old_logprobs_cpu_s = _old_logprobs(trainer, net, parts)
    started = time.process_time()
    trainer.current_gradient_accumulation_steps = len(parts)
    for part in parts:
        trainer.accelerator.backward(trainer.compute_loss(net, _inputs(part, tokens / len(parts))))
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    cpu_s = time.process_time() - started
    found = {"cpu_s": cpu_s, "old_logprobs_cpu_s": old_logprobs_cpu_s, "memory_mib": peak_mib() - empty}
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


def _old_logprobs(trainer: Any, net: Any, parts: list[list[Any]]) -> float:
    """CPU seconds."""
    started = time.process_time()
    with torch.no_grad():
        for part in parts:
            of = _inputs(part, 1.0)
            token_ids = torch.cat([of["prompt_ids"], of["completion_ids"]], 1)
            mask = torch.cat([of["prompt_mask"], of["completion_mask"]], 1)
            kept = of["completion_ids"].size(1)
            trainer._get_per_token_logps_and_entropies(net, token_ids, mask, kept, ROWS)
    return time.process_time() - started


def _trainer(model: str, scratch: str, stored: bool) -> Any:
    options: dict[str, Any] = {"gradient_checkpointing": False} if stored else {}
    config = GRPOConfig(
        output_dir=scratch,
        per_device_train_batch_size=ROWS,
        num_generations=8,
        use_cpu=True,
        bf16=False,
        report_to=[],
        **options,
    )
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    data = Dataset.from_list([{"prompt": "x"}] * 8)
    reward = lambda completions, **_: [0.0] * len(completions)  # noqa: E731
    return GRPOTrainer(model=loaded, reward_funcs=reward, args=config, train_dataset=data)


def _inputs(rows: list[list[list[int]]], tokens: float) -> dict[str, torch.Tensor]:
    """As its own collation makes them: prompts padded on the left, answers on the right."""
    prompts, answers = [row[0] for row in rows], [row[1] for row in rows]
    wide, long = max(map(len, prompts)), max(map(len, answers))
    return {
        "prompt_ids": torch.tensor([[0] * (wide - len(one)) + one for one in prompts]),
        "prompt_mask": torch.tensor([[0] * (wide - len(one)) + [1] * len(one) for one in prompts]),
        "completion_ids": torch.tensor([one + [0] * (long - len(one)) for one in answers]),
        "completion_mask": torch.tensor([[1] * len(one) + [0] * (long - len(one)) for one in answers]),
        "advantages": torch.linspace(-1.5, 1.5, len(rows)),
        "num_items_in_batch": torch.tensor(tokens),
    }


if __name__ == "__main__":
    main()
