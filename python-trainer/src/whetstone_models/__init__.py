# SPDX-License-Identifier: Apache-2.0
"""Model folders in the Hugging Face layout: configuration, weights, tokenizer, and the transformer that runs them.

Shared by the engine and the trainer, so that both read a folder in exactly the same way.
Importing this package is cheap; `transformer`, `folder` and `init` import torch.
"""
