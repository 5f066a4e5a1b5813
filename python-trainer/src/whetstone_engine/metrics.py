# SPDX-License-Identifier: Apache-2.0
"""Counters and their Prometheus text, under vLLM's names, so that one dashboard serves both engines.

Written as text by hand: the step thread adds to plain integers, which costs nothing per token.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals since the start, in tokens or requests. Only the step thread writes them."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    preemptions: int = 0
    steps: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0, "error": 0})


@dataclass(slots=True)
class WeightCounters:
    """Totals since the start, of weights that were fetched. Only the thread that fetches writes them."""

    # Bytes of files that came over HTTP.
    received_bytes: int = 0
    # Bytes of tensors that came by broadcast.
    broadcast_bytes: int = 0
    # Seconds from the first request until all was fetched, checked and in memory.
    fetch_seconds: float = 0.0
    # Times that a transfer broke and went on.
    resumed: int = 0


class PauseClock:
    """How long the engine was paused, in seconds, the pause that runs included."""

    def __init__(self) -> None:
        self._total, self._since = 0.0, None

    def begin(self) -> None:
        """Of a pause, or again within it."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Of a pause, if there is one."""
        self._total, self._since = self.seconds, None

    @property
    def seconds(self) -> float:
        return self._total + (time.monotonic() - self._since if self._since is not None else 0.0)


@dataclass(slots=True)
class Gauges:
    """Values of this moment; `kv_usage` is the share of cache blocks held by running sequences, 0..1."""

    running: int
    waiting: int
    kv_usage: float


def render(model: str, counters: Counters, gauges: Gauges, weights: WeightCounters, paused_s: float) -> str:
    """The text of GET /metrics: vLLM's names, and ours for what vLLM does not count."""
    label = f'model_name="{model}"'
    lines: list[str] = []

    def put(name: str, kind: str, help_text: str, samples: list[tuple[str, float]], prefix: str = "vllm:") -> None:
        lines.append(f"# HELP {prefix}{name} {help_text}")
        lines.append(f"# TYPE {prefix}{name} {kind}")
        lines.extend(f"{prefix}{name}{{{labels}}} {value}" for labels, value in samples)

    def put_own(name: str, help_text: str, value: float) -> None:
        put(name, "counter", help_text, [(label, value)], "whetstone_engine_")

    put("num_requests_running", "gauge", "Requests in the running batch.", [(label, gauges.running)])
    put("num_requests_waiting", "gauge", "Requests waiting to be admitted.", [(label, gauges.waiting)])
    put("kv_cache_usage_perc", "gauge", "Share of cache blocks in use, 0 to 1.", [(label, gauges.kv_usage)])
    put("prefix_cache_queries_total", "counter", "Prompt tokens looked up.", [(label, counters.cache_queries)])
    put("prefix_cache_hits_total", "counter", "Prompt tokens found cached.", [(label, counters.cache_hits)])
    put("prompt_tokens_total", "counter", "Prompt tokens of admitted requests.", [(label, counters.prompt_tokens)])
    put("generation_tokens_total", "counter", "Tokens sampled.", [(label, counters.generation_tokens)])
    put("num_preemptions_total", "counter", "Sequences that lost their blocks.", [(label, counters.preemptions)])
    finished = [(f'{label},finished_reason="{reason}"', count) for reason, count in sorted(counters.finished.items())]
    put("request_success_total", "counter", "Finished requests by reason.", [(k, float(v)) for k, v in finished])
    put_own("steps_total", "Passes of the model; with the tokens sampled, how full batches are.", counters.steps)
    put_own("weight_transfer_bytes_total", "Bytes of weights that came over HTTP.", weights.received_bytes)
    put_own("weight_broadcast_bytes_total", "Bytes of weights that came by broadcast.", weights.broadcast_bytes)
    put_own("weight_transfer_seconds_total", "Seconds in which weights were fetched.", weights.fetch_seconds)
    put_own("weight_transfer_resumed_total", "Times that a transfer broke and went on.", weights.resumed)
    put_own("paused_seconds_total", "Seconds in which nothing was sampled, by order.", paused_s)
    return "\n".join(lines) + "\n"
