# SPDX-License-Identifier: Apache-2.0
"""Whoever steers the engine must be the newest controller that it has heard of."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from iep_target import start_engine

from whetstone_engine.epoch import EpochFence
from whetstone_engine.errors import ApiError

STEERING = (
    ("/pause", None),
    ("/update_weight_version", {"new_version": "x"}),
    ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": "/nowhere"}}),
    ("/reset_prefix_cache", None),
    ("/resume", None),
)


async def test_a_controller_that_was_replaced_steers_nothing(models: tuple[Path, Path], tmp_path: Path) -> None:
    with start_engine(models[0], tmp_path / "engine.log") as (url, _):
        async with aiohttp.ClientSession(url) as http:

            async def post(path: str, body: object, epoch: int | None) -> tuple[int, str]:
                headers = {} if epoch is None else {"Whetstone-Epoch": str(epoch)}
                async with http.post(path, json=body, headers=headers) as answer:
                    return answer.status, await answer.text()

            assert (await post("/pause", None, None))[0] == 200  # nobody has led yet
            assert (await post("/resume", None, 7))[0] == 200
            for path, body in STEERING:
                for old in (6, None):
                    status, text = await post(path, body, old)
                    assert status == 409, path
                    assert "StaleEpoch" in text
            async with http.get("/is_paused") as answer:
                assert await answer.json() == {"is_paused": False}
            assert (await post("/pause", None, 8))[0] == 200
            assert (await post("/resume", None, 7))[0] == 409
            # The gateway samples and takes requests back without any epoch.
            assert (await post("/abort_requests", {}, None))[0] == 200


@pytest.mark.parametrize("header", ["", "-1", "1.5", "ten", "9" * 21, "²"])
def test_an_epoch_is_a_whole_number(header: str) -> None:
    fence = EpochFence()
    with pytest.raises(ApiError) as caught:
        fence.check(header)
    assert caught.value.status == 400
    assert fence.highest == 0
