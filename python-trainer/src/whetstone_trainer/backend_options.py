# SPDX-License-Identifier: Apache-2.0
"""What a program that trains takes to say with what: backend, ranks, type of matrix products."""

from __future__ import annotations

import argparse
import os
import sys

import torch

from whetstone_trainer.backends.local.backend import LocalBackend
from whetstone_trainer.backends.local.ranked import ProcessBackend
from whetstone_trainer.backends.protocol import TrainerBackend
from whetstone_trainer.contract.errors import TrainerError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def add_backend_options(parser: argparse.ArgumentParser) -> None:
    """Flags win over WHETSTONE_* variables."""
    environment = os.environ
    parser.add_argument("--threads", type=int, default=1, help="threads of one computation on a CPU")
    parser.add_argument(
        "--dtype",
        choices=tuple(DTYPES),
        default="float32",
        help="of matrix products; weights, optimizer state, log-probabilities and losses are float32 always",
    )
    parser.add_argument("--backend", choices=("local", "verl"), default=environment.get("WHETSTONE_BACKEND", "local"))
    parser.add_argument(
        "--ranks",
        type=_count,
        default=environment.get("WHETSTONE_RANKS", "1"),
        help="processes that share a job's models, a device each; of the backend verl each is a Ray actor",
    )
    parser.add_argument(
        "--hang-seconds",
        type=_count,
        default=environment.get("WHETSTONE_HANG_SECONDS", "60"),
        help="one of several ranks that does not answer for so long is taken for lost",
    )


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 4096:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and 4096")
    return number


def make_backend(arguments: argparse.Namespace, device: torch.device) -> TrainerBackend:
    """Ends the process where it cannot be had. For verl: before there are threads and handlers of signals."""
    dtype = DTYPES[arguments.dtype]
    if arguments.backend == "local":
        return _local(arguments, device, dtype)
    try:
        from whetstone_trainer.backends.verl.backend import VerlBackend
    except ImportError as error:
        advice = "run deploy/local/setup-verl.sh, and set WHETSTONE_PYTHON=.whetstone/verl/bin/python"
        sys.exit(f"--backend verl: {error}; {advice}")
    try:
        return VerlBackend(arguments.ranks, dtype, arguments.hang_seconds)
    except TrainerError as error:
        sys.exit(f"--backend verl: {error}")


def _local(arguments: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> TrainerBackend:
    if arguments.ranks == 1:
        return LocalBackend(device, dtype)
    if device.type == "cuda" and arguments.ranks > torch.cuda.device_count():
        sys.exit(f"--ranks: {arguments.ranks} need a GPU each, this machine has {torch.cuda.device_count()}")
    return ProcessBackend(arguments.ranks, device, dtype, arguments.hang_seconds)
