# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_engine --model DIR`: serves one model folder over IEP/1 until SIGTERM or SIGINT.

Exit codes: 0 stopped, 2 the folder, the options or the address cannot be used (one line on stderr).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

from whetstone_engine.memory import keep_freed_memory
from whetstone_logs import log_to_stderr
from whetstone_models.errors import ModelError
from whetstone_store.location import add_store_options, store_of
from whetstone_store.own_data import own_data
from whetstone_tls import TlsError

log = logging.getLogger("whetstone_engine")
SWITCH_INTERVAL_S = 0.0005


def main(arguments: list[str] | None = None) -> int:
    """Parses, loads, serves."""
    options = parser().parse_args(arguments)
    log_to_stderr("engine", logging.WARNING)
    log.setLevel(logging.INFO)
    try:
        asyncio.run(_run(options))
    except (ModelError, TlsError, OSError) as error:
        field = error.field if isinstance(error, ModelError) else "tls" if isinstance(error, TlsError) else "address"
        reason = error.reason if isinstance(error, ModelError) else str(error)
        print(json.dumps({"error": {"field": field, "reason": reason}}), file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line. Lengths and sizes are in tokens; 0 means "choose from the model"."""
    result = argparse.ArgumentParser(prog="whetstone_engine", description=__doc__)
    result.add_argument("--model", type=Path, required=True, help="folder in Hugging Face layout")
    result.add_argument("--host", default="127.0.0.1")
    result.add_argument("--port", type=int, default=8000, help="0 picks a free one; see the log line `listening`")
    result.add_argument(
        "--control-port", type=int, help="port of its own for pause, load, label and abort; --port then refuses them"
    )
    result.add_argument("--control-host", help="default: --host")
    result.add_argument(
        "--health-port",
        type=int,
        default=int(os.environ.get("WHETSTONE_HEALTH_PORT", "0")),
        help="port of its own for /health and /metrics in plain text, where WHETSTONE_TLS_PATH is set; 0: none",
    )
    result.add_argument("--served-model-name", default="policy")
    result.add_argument("--max-num-seqs", type=int, default=256, help="sequences computed together")
    result.add_argument("--max-model-len", type=int, default=0)
    result.add_argument("--kv-cache-tokens", type=int, default=0)
    result.add_argument("--max-waiting", type=int, default=4096, help="requests queued before answering 429")
    result.add_argument("--max-adapters", type=int, default=8, help="LoRA adapters that are loaded at a time")
    result.add_argument(
        "--weights-dir",
        type=Path,
        default=os.environ.get("WHETSTONE_WEIGHTS_DIR"),
        help="keeps fetched weights, for an engine that is started again or computes in another type than is "
        "published; one engine's own, takes up to twice the weights. Default: they are in memory only",
    )
    add_store_options(result)
    result.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    result.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    result.add_argument("--threads", type=int, default=1, help="threads of one tensor operation on the CPU")
    return result


async def _run(options: argparse.Namespace) -> None:
    # Threads that spin while idle would take the core from the other thread and from neighbours.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed_memory()
    import torch

    from whetstone_engine.engine import Engine, EngineOptions
    from whetstone_engine.server import CONTROL_CALLERS, DATA_CALLERS, Listen, serve
    from whetstone_tls import TlsIdentity

    torch.set_num_threads(options.threads)
    torch.set_num_interop_threads(1)
    # Every tensor operation gives up the interpreter lock; with the default 5 ms the step thread would wait that long
    # for the event loop to hand it back, after each operation.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    cuda = torch.cuda.is_available()
    if options.device == "cuda" and not cuda:
        raise ModelError("device", "no CUDA device is available")
    folder = os.environ.get("WHETSTONE_TLS_PATH")
    identity = TlsIdentity(folder) if folder else None
    own = own_data(identity)
    engine = Engine(
        EngineOptions(
            model=own.bring(options.model) if own else options.model,
            served_model_name=options.served_model_name,
            max_num_seqs=options.max_num_seqs,
            max_model_len=options.max_model_len,
            kv_cache_tokens=options.kv_cache_tokens,
            max_waiting=options.max_waiting,
            max_adapters=options.max_adapters,
            dtype=getattr(torch, options.dtype),
            device="cuda" if cuda and options.device != "cpu" else "cpu",
            weights_dir=options.weights_dir,
            tls=identity.client_context() if identity else None,
            object_store=store_of(options),
            own_data=own,
        )
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    context = identity.server_context() if identity else None
    data = Listen(options.host, options.port, context, DATA_CALLERS)
    control = None
    if options.control_port is not None:
        control = Listen(options.control_host or options.host, options.control_port, context, CONTROL_CALLERS)
    probes = Listen(options.host, options.health_port) if options.health_port else None
    watching = asyncio.create_task(identity.watch()) if identity else None
    await serve(engine, data, control, stop, probes)
    if watching is not None:
        watching.cancel()
    log.info("stopped")


if __name__ == "__main__":
    sys.exit(main())
