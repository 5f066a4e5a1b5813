# SPDX-License-Identifier: Apache-2.0
"""A plugin of vLLM's CPU build: reloaded weights also reach an output layer that is tied to the embedding.

On a CPU vLLM 0.32 multiplies by a packed copy of each matrix. A reload packs those again that it finds in the folder, and a
tied lm_head is never there: it would go on with its first weights, and nothing would say so. Elsewhere the two share memory.
"""

from __future__ import annotations


def register() -> None:
    """What vLLM calls in each of its processes. Raises AttributeError where vLLM's insides are others than expected."""
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    tie, process = UnquantizedEmbeddingMethod.tie_weights, UnquantizedEmbeddingMethod.process_weights_after_loading

    def tie_weights(self, layer, embed_tokens):
        layer = tie(self, layer, embed_tokens)
        object.__setattr__(layer, "tied_to", embed_tokens)  # not a module of this one
        return layer

    def process_weights_after_loading(self, layer):
        tied_to = getattr(layer, "tied_to", None)
        if tied_to is None:
            process(self, layer)
        else:  # the embedding's own packed copy, whichever it has then
            layer.cpu_linear = lambda x, weight, bias: tied_to.cpu_linear(x, weight, bias)

    UnquantizedEmbeddingMethod.tie_weights = tie_weights
    UnquantizedEmbeddingMethod.process_weights_after_loading = process_weights_after_loading
