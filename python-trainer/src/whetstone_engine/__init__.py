# SPDX-License-Identifier: Apache-2.0
"""The embedded inference engine: a small PyTorch server for IEP/1, a strict subset of vLLM's wire format.

Two threads: the asyncio loop parses and writes HTTP; the step thread owns the model, the KV cache and every sequence.
They meet only in `step_loop.StepLoop`.
"""
