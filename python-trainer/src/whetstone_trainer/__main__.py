# SPDX-License-Identifier: Apache-2.0
"""`python -m whetstone_trainer`: the trainer service."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import torch

from whetstone_logs import LEVELS, log_to_stderr, stop_with_parent
from whetstone_models.errors import ModelError
from whetstone_store.location import add_store_options, store_of
from whetstone_store.own_data import own_data
from whetstone_tls import TlsIdentity
from whetstone_trainer.algorithms.custom import ModuleRules
from whetstone_trainer.backend_options import DTYPES, add_backend_options, make_backend
from whetstone_trainer.backends.local.cpu import computes_bfloat16
from whetstone_trainer.service.server import ServerConfig, start_server

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

log = logging.getLogger("whetstone_trainer")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Flags win over WHETSTONE_* variables."""
    environment = os.environ
    parser = argparse.ArgumentParser(prog="python -m whetstone_trainer", description=__doc__)
    parser.add_argument("--host", default=environment.get("WHETSTONE_HOST", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(environment.get("WHETSTONE_GRPC_PORT", "7400")))
    parser.add_argument("--nats", default=environment.get("WHETSTONE_NATS_URL", "nats://127.0.0.1:4222"))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_backend_options(parser)
    parser.add_argument(
        "--weights-port",
        type=int,
        default=environment.get("WHETSTONE_WEIGHTS_PORT"),
        help="serves weights to engines, for jobs with weights.transport stream; 0: any free one. Default: it does not",
    )
    parser.add_argument(
        "--weights-url",
        default=environment.get("WHETSTONE_WEIGHTS_URL", ""),
        help="what engines call that server by; default: http, or https with certificates, --host and the port",
    )
    parser.add_argument(
        "--weights-group",
        metavar="ADDRESS",
        default=environment.get("WHETSTONE_WEIGHTS_GROUP", ""),
        help="this machine's address for engines, for jobs with weights.transport broadcast: by NCCL or gloo, "
        "at free ports and not encrypted; needs --weights-port. Default: there are none",
    )
    add_store_options(parser)
    return parser.parse_args(arguments)


def warn_of_slow_bfloat16(device: torch.device, dtype: torch.dtype) -> None:
    if device.type != "cpu" or dtype != torch.bfloat16 or computes_bfloat16():
        return
    why = "this CPU has neither avx512_bf16 nor amx_bf16: bfloat16 is about 8 times slower than float32 on it"
    log.warning("bfloat16_is_slow", extra={"reason": why, "action": "start the trainer with --dtype float32"})


def main() -> None:
    log_to_stderr("trainer", LEVELS[os.environ.get("WHETSTONE_LOG_LEVEL", "info")])
    arguments = parse_arguments()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda: PyTorch sees no CUDA device; use --device cpu or auto")
    if arguments.weights_group and arguments.weights_port is None:
        sys.exit("--weights-group: needs --weights-port, where engines ask for a group")
    if arguments.backend == "verl" and arguments.device != "auto":
        sys.exit("--device: the backend verl takes a GPU a rank where its Ray cluster has some; leave it out")
    torch.set_num_threads(arguments.threads)
    asyncio.run(serve(arguments))


async def serve(arguments: argparse.Namespace) -> None:
    """Runs until SIGTERM, SIGINT, or, when supervised, until standard input closes."""
    on_cuda = arguments.device == "cuda" or (arguments.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if on_cuda else "cpu")
    warn_of_slow_bfloat16(device, DTYPES[arguments.dtype])
    # Before there are threads and handlers of signals.
    backend = make_backend(arguments, device)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if os.environ.get("WHETSTONE_SUPERVISED") == "1":
        stop_with_parent(loop, stop)
    folder = os.environ.get("WHETSTONE_TLS_PATH")
    identity = TlsIdentity(folder) if folder else None
    config = ServerConfig(
        arguments.host,
        arguments.port,
        arguments.nats,
        backend,
        tls=identity,
        health_port=int(os.environ.get("WHETSTONE_HEALTH_PORT", "0")),
        nats_credentials=os.environ.get("WHETSTONE_NATS_CREDENTIALS"),
        nats_ca=os.environ.get("WHETSTONE_NATS_CA"),
        modules=ModuleRules(
            os.environ.get("WHETSTONE_ALGORITHM_MODULES") == "1",
            int(os.environ.get("WHETSTONE_ALGORITHM_HANG_MS", "60000")) / 1000,
        ),
        weights_port=arguments.weights_port,
        weights_url=arguments.weights_url,
        weights_group=arguments.weights_group,
        object_store=_store(arguments),
        own_data=own_data(identity),
    )
    server = await start_server(config)
    log.info(
        "ready",
        extra={"host": arguments.host, "port": server.port, "device": device.type, "backend": arguments.backend},
    )
    await stop.wait()
    # A second signal, or a micro-batch that takes longer than this, ends the process without waiting.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.close(), 4.0)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(backend.close), 4.0)
    log.info("stopped")
    logging.shutdown()
    os._exit(0)


def _store(arguments: argparse.Namespace) -> ObjectStore | None:
    try:
        return store_of(arguments)
    except ModelError as error:
        sys.exit(f"--{error}")


if __name__ == "__main__":
    main()
