# SPDX-License-Identifier: Apache-2.0
"""The engine as the routes see it: submit, abort, pause, reload. Every method belongs to the event loop's thread."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from whetstone_engine.adapters.adapter import Adapter
from whetstone_engine.adapters.registry import Adapters
from whetstone_engine.errors import ApiError
from whetstone_engine.kv_cache import BLOCK, BlockPool
from whetstone_engine.logits.change import RowChanges
from whetstone_engine.logits.grammar import Grammars
from whetstone_engine.metrics import Gauges, PauseClock
from whetstone_engine.pace import Pace
from whetstone_engine.runner import Runner
from whetstone_engine.scheduler import Scheduler
from whetstone_engine.sequence import Output, SamplingParams, Sequence
from whetstone_engine.slots import SlotTable
from whetstone_engine.step_loop import StepLoop
from whetstone_engine.tokenizer import TextCodec
from whetstone_engine.weights.building import Held, Place, Version, build
from whetstone_engine.weights.fetcher import Fetcher
from whetstone_engine.weights.shards import ShardFolder
from whetstone_engine.weights.stream import Published
from whetstone_engine.wire import Call, Limits
from whetstone_models.config import ModelConfig, read_config
from whetstone_models.errors import ModelError
from whetstone_models.folder import load_model
from whetstone_models.manifest import MANIFEST, read_manifest, verify_manifest
from whetstone_models.tensors import BLOCKS, parse_blocks
from whetstone_models.transformer import Transformer

if TYPE_CHECKING:
    from whetstone_store.own_data import OwnData
    from whetstone_store.store import ObjectStore


@dataclass(frozen=True)
class EngineOptions:
    """Lengths and sizes are in tokens; 0 for `max_model_len` and `kv_cache_tokens` means "choose"."""

    model: Path
    served_model_name: str = "policy"
    max_num_seqs: int = 256
    max_model_len: int = 0
    kv_cache_tokens: int = 0
    max_waiting: int = 4096
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    step_tokens: int = 2048
    max_adapters: int = 8
    # Where fetched tensors are kept over a restart; None: nowhere.
    weights_dir: Path | None = None
    # Of a trainer with an https:// URL.
    tls: ssl.SSLContext | None = None
    # Of versions with a URL of s3; None: there is none.
    object_store: ObjectStore | None = None
    # None: the data folder is the controller's, too.
    own_data: OwnData | None = None


class Engine:
    """One model being served. Raises ModelError from the constructor if the folder cannot be."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.codec = TextCodec(options.model)
        self._served = self._load(options.model, None)
        model = self._served.model
        config = model.config
        self.max_len = min(options.max_model_len or config.max_position, config.max_position)
        eos = _end_tokens(options.model, config, self.codec)
        names = (options.served_model_name, str(options.model))
        self.adapters = Adapters(options.max_adapters, names)
        self.limits = Limits(names, self.adapters, config.vocab_size, self.max_len, eos)
        self.grammars = Grammars(self.codec.serialized(), config.vocab_size, eos)
        blocks = -(-_cache_tokens(options, config, self.max_len) // BLOCK) + 1
        self.runner = Runner(model, blocks)
        self.runner.warm_up()
        table = SlotTable(options.max_num_seqs, self.max_len)
        pace = Pace(options.step_tokens, config.context_cost)
        self.scheduler = Scheduler(table, BlockPool(blocks), self.max_len, eos, pace)
        self.steps = StepLoop(self.scheduler, self.runner, options.max_waiting)
        self.live: dict[str, list[Sequence]] = {}
        self._reloading = asyncio.Lock()
        self.fetcher = Fetcher(options.weights_dir, options.tls, options.object_store)
        self.pauses = PauseClock()
        # Read and verified, and not served yet.
        self._staged: tuple[Path, Held] | None = None

    @property
    def label(self) -> str:
        """The weight version that new tokens carry."""
        return self.scheduler.label

    async def changes(self, params: SamplingParams) -> RowChanges | None:
        """What a request asks of its logits, made ready. Raises ApiError 400 for a form that cannot be kept."""
        asked = params.logits
        if asked is None:
            return None
        if asked.schema is None:
            return RowChanges(asked)
        return RowChanges(asked, await asyncio.to_thread(self.grammars.of_schema, asked.schema))

    def submit(
        self,
        call: Call,
        prefix: str,
        header_id: str | None,
        sink: Callable[[Output], None],
        changes: RowChanges | None = None,
    ) -> Sequence:
        """Queues a request. Raises ApiError 429 when the waiting queue is full, 404 when its adapter has gone."""
        self.adapters.must_have(call.adapter)
        request_id = f"{prefix}{header_id or call.request_id or uuid.uuid4().hex}"
        sequence = Sequence(request_id, call.prompt, call.params, sink, call.stream, _salt(call), adapter=call.adapter)
        sequence.tells_versions = call.continuous_versions
        sequence.changes = changes
        self.steps.submit(sequence)
        self.live.setdefault(request_id, []).append(sequence)
        return sequence

    async def score(self, prompt: list[int], adapter: Adapter | None) -> list[float]:
        """Log-probabilities of a prompt's tokens after the first, between two steps. Raises 404 as `submit`."""
        self.adapters.must_have(adapter)
        return await self.steps.call(lambda: self.runner.score(prompt, adapter)) if len(prompt) > 1 else []

    def forget(self, sequence: Sequence) -> None:
        """The response has ended; if the sequence has not, its slot is freed (I9)."""
        same = self.live.get(sequence.request_id, [])
        if sequence in same:
            same.remove(sequence)
        if not same:
            self.live.pop(sequence.request_id, None)
        if not sequence.done:
            self.steps.post(lambda: self.scheduler.abort([sequence]))

    async def abort(self, request_ids: list[str] | None) -> None:
        """Ends requests by id, or all of them; their responses carry the partial tokens."""
        groups = list(self.live.values()) if request_ids is None else [self.live.get(i, []) for i in request_ids]
        chosen = [sequence for group in groups for sequence in group]
        await self.steps.call(lambda: self.scheduler.abort(chosen))

    async def pause(self, mode: str, clear_cache: bool) -> None:
        """Stops sampling; returns when no further token will be sampled. Idempotent.

        abort ends running and queued requests, with clear_cache in the middle of a step, whose tokens are not sampled;
        wait lets running ones finish; keep freezes them. Requests that arrive while paused are queued and survive a
        repeated pause, unlike in vLLM 0.32.
        """
        self.pauses.begin()
        if mode == "wait":
            await self.steps.call(lambda: self._begin_pause(mode))
            await self.steps.drain()
            await self.steps.call(lambda: self._end_pause(mode, clear_cache))
            return

        def pause() -> None:
            self._begin_pause(mode)
            self._end_pause(mode, clear_cache)

        await self.steps.call(pause, urgent=mode == "abort" and clear_cache)

    def _begin_pause(self, mode: str) -> None:
        scheduler = self.scheduler
        already, scheduler.paused = scheduler.paused, True
        scheduler.draining = mode == "wait"
        if mode == "abort":
            frozen = [sequence for sequence in scheduler.waiting if sequence.slot >= 0]
            scheduler.abort([*scheduler.running, *(frozen if already else scheduler.waiting)])

    def _end_pause(self, mode: str, clear_cache: bool) -> None:
        if mode == "wait":
            self.scheduler.draining = False
        if clear_cache and self.scheduler.paused:  # resumed while draining: the cache is in use again, and valid
            self.scheduler.preempt_all()  # keep: frozen requests are computed anew after resume, as in vLLM
            self.scheduler.pool.reset_cache()

    async def resume(self) -> None:
        """Samples again."""
        await self.steps.call(self._resume)
        self.pauses.end()

    def _resume(self) -> None:
        self.scheduler.paused = self.scheduler.draining = False

    async def set_label(self, label: str) -> None:
        """Labels tokens sampled from now on."""
        await self.steps.call(lambda: self.scheduler.set_label(label))

    async def reset_prefix_cache(self, preempt: bool) -> None:
        """Forgets cached prefixes; `preempt` also recomputes what running requests hold."""

        def reset() -> None:
            if preempt:
                self.scheduler.preempt_all()
            self.scheduler.pool.reset_cache()

        await self.steps.call(reset)

    async def stage(self, directory: Path, published: Published | None = None) -> None:
        """Reads and verifies a folder while sampling goes on, so that a `reload` of it only swaps.

        `published`: in place of its files, which this engine may not see, where else they are. It is kept beside the
        served weights until a reload, or until another folder is staged. Raises ModelError.
        """
        async with self._reloading:
            self._staged = None
            self._staged = directory, await self._read(directory, published)

    async def close(self) -> None:
        """Ends a transfer that runs, and lets go of the folder of tensors."""
        self.steps.stop()
        await self.fetcher.close()

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Reads an adapter of the served weights while sampling goes on. Raises as `Adapters.load`."""
        async with self._reloading:
            if self.options.own_data is not None:
                folder = await asyncio.to_thread(self.options.own_data.bring, folder)
            place = Place(self.options.dtype, self.options.device)
            await self.adapters.load(name, folder, self._served.model, place)

    async def reload(self, directory: Path) -> None:
        """Replaces the weights. On any error nothing has changed: old weights, old label, same pause state (I7).

        Raises ModelError for a bad folder, ApiError 400 when requests are being sampled: their tokens would carry the
        label of the old weights (I5). Adapters stand beside the old weights: they are unloaded, and requests for them
        that wait end with finish reason "abort".
        """
        async with self._reloading:
            staged, held = self._staged or (None, None)
            if held is None or staged != directory:
                held = await self._read(directory)
            with self.adapters.leaving():
                await self.steps.call(functools.partial(self._swap, held.model))
            self._served, self._staged = held, None

    async def _read(self, directory: Path, published: Published | None = None) -> Held:
        place = Place(self.options.dtype, self.options.device)
        if published is None:
            held = await asyncio.to_thread(self._load, directory, self._served)
        else:
            held = await self.fetcher.fetch(published, place, self._served)
        config = held.model.config
        if config.vocab_size != self.limits.vocab_size or config.max_position < self.max_len:
            raise ModelError("config.json", "vocabulary or context differ from the served model; restart the engine")
        return held

    def _swap(self, model: Transformer) -> None:
        scheduler = self.scheduler
        if not scheduler.paused and (scheduler.running or scheduler.waiting):
            raise ApiError(400, "pause the engine before reloading its weights")
        scheduler.abort([s for s in (*scheduler.running, *scheduler.waiting) if s.adapter is not None])
        scheduler.restart_prompts()
        if self.runner.swap(model):
            scheduler.abort([*scheduler.running, *(s for s in scheduler.waiting if s.slot >= 0)])
        # vLLM leaves this to the caller, who may forget: a prefix computed by old weights is never right for new ones.
        scheduler.pool.reset_cache()

    def _load(self, directory: Path, served: Held | None) -> Held:
        """A complete model, or an error before anything is replaced. A folder of bare weights fits the served one."""
        if self.options.own_data is not None:
            directory = self.options.own_data.bring(directory)
        if not directory.is_dir():
            raise ModelError("model", f"{directory} is not a folder")
        manifest = read_manifest(directory) if (directory / MANIFEST).is_file() else None
        if manifest is not None:
            # The digests of tensors say the same of the shards, and are checked as they are read.
            verify_manifest(directory, but=manifest.shards)
        bare = served is not None and not (directory / "config.json").is_file()
        config = served.model.config if served is not None and bare else read_config(directory)
        place = Place(self.options.dtype, self.options.device)
        if manifest is not None and manifest.tensors:
            blocks = parse_blocks((directory / BLOCKS).read_bytes()) if manifest.file(BLOCKS) else None
            with ShardFolder(directory) as source:
                return build(Version(manifest.tensors, blocks, config), place, source, served)
        model = load_model(directory, place.dtype, place.device, config)
        return Held(model.eval().requires_grad_(False).fuse())

    def gauges(self) -> Gauges:
        """Values for /metrics. Read without a lock: each is a single number."""
        scheduler = self.scheduler
        frozen = sum(sequence.slot >= 0 for sequence in list(scheduler.waiting))
        return Gauges(len(scheduler.running), self.steps.queued - frozen, scheduler.pool.usage)


def _salt(call: Call) -> str:
    """Which cached prefixes a call may share: those of one adapter, and of one that was loaded once."""
    return call.salt if call.adapter is None else f"{call.adapter.serial}\0{call.salt}"


def _cache_tokens(options: EngineOptions, config: ModelConfig, max_len: int) -> int:
    """At least one longest sequence. By default 64 Ki tokens within 512 MiB on a CPU, or 8 GiB on a GPU.

    Cached prefixes fill the whole pool in time, so its size is what the process will occupy.
    """
    if options.kv_cache_tokens:
        return max(options.kv_cache_tokens, max_len)
    per_token = 2 * config.num_layers * config.kv_size * options.dtype.itemsize
    memory, most = (512 << 20, 1 << 16) if options.device == "cpu" else (8 << 30, options.max_num_seqs * max_len)
    return max(min(memory // per_token, most), max_len)


def _end_tokens(directory: Path, config: ModelConfig, codec: TextCodec) -> tuple[int, ...]:
    """Every id that the folder calls end-of-sequence: chat models often name one in each of three files."""
    ids: list[int | None] = list(config.eos_token_ids)
    path = directory / "generation_config.json"
    if path.is_file():
        value = json.loads(path.read_text()).get("eos_token_id")
        ids += value if isinstance(value, list) else [value]
    eos = codec.specials.get("eos_token")
    ids.append(codec.token_id(eos) if eos else None)
    return tuple(dict.fromkeys(token for token in ids if isinstance(token, int)))
