# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""A platform for verl on machines without an accelerator; its own are cuda, npu and rocm.

Registered through verl's plug-in interface (verl 0.9 `verl.plugin.platform`), before anything asks for a device.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any

import torch

NAME = "cpu"


def register_cpu_platform() -> None:
    """Makes this process one without an accelerator to verl."""
    os.environ["VERL_PLATFORM"] = NAME
    from verl.plugin.platform.platform_base import PlatformBase
    from verl.plugin.platform.platform_manager import PlatformRegistry

    class CpuPlatform(PlatformBase):
        device_name, vendor_name, device_module = NAME, NAME, _device_module()

        def is_available(self) -> bool:
            return True

        def current_device(self) -> str:
            return NAME

        def device_count(self) -> int:
            return 1

        def set_device(self, device_index: int) -> None: ...

        def synchronize(self, device_index: int | None = None) -> None: ...

        def manual_seed(self, seed: int) -> None:
            torch.manual_seed(seed)

        def manual_seed_all(self, seed: int) -> None:
            torch.manual_seed(seed)

        def set_allocator_settings(self, settings: str) -> None: ...

        def empty_cache(self) -> None: ...

        def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
            return (None, None)

        def communication_backend_name(self) -> str:
            return "gloo"

        def visible_devices_envvar(self) -> str:
            return "WHETSTONE_NO_DEVICES"

        @contextlib.contextmanager
        def nvtx_range(self, msg: str) -> Iterator[None]:
            yield

        def profiler_start(self) -> None: ...

        def profiler_stop(self) -> None: ...

        def ray_resource_name(self) -> str:
            return "CPU"

        def ray_noset_envvars(self) -> list[str]:
            return []

        def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
            return {"num_cpus": num_gpus}

        def is_ipc_supported(self) -> bool:
            return False

        def cudart(self) -> None:
            return None

    PlatformRegistry.register(platform=NAME)(CpuPlatform)


def _device_module() -> types.SimpleNamespace:
    """torch.cpu, with what only the modules of accelerators have."""
    own = {name: getattr(torch.cpu, name) for name in dir(torch.cpu) if not name.startswith("_")}
    memory = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    added = {name: lambda *_, **__: 0 for name in memory}
    return types.SimpleNamespace(
        **own | added,
        mem_get_info=lambda *_, **__: (0, 0),
        empty_cache=lambda: None,
        reset_peak_memory_stats=lambda *_: None,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
    )
