# SPDX-License-Identifier: Apache-2.0
"""Writes a model folder without weights whose vocabulary is learned from Markdown: a byte-level BPE as Qwen's, with its chat template.

usage: make_model.py FOLDER TEMPLATE MARKDOWN...
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 8_192
MARKS = ["<|im_end|>", "<|im_start|>"]


def main(folder: Path, template: Path, texts: list[str]) -> None:
    """The mark that ends a turn has id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": MARKS[0], "chat_template": template.read_text(), "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
