# SPDX-License-Identifier: Apache-2.0
"""What a weights folder says of each tensor: where its bytes lie, and their digests. Needs no torch.

blocks.json: `{"bytes":1048576,"tensors":{"model.norm.weight":["<32 hex>", …]}}`, a digest for each block of a tensor's
bytes, the last one shorter. Whoever holds another version compares them, and checks what it fetched of a tensor.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from whetstone_models.errors import ManifestError, WeightsError

BLOCKS = "blocks.json"
BLOCK_BYTES = 1 << 20
# Hex digits of a block's digest, the first of its SHA-256.
_BLOCK_DIGITS = 32
# A header is small; anything else at its place is no safetensors file.
_MOST_HEADER = 100 << 20
# Bytes of an element, by the names of safetensors.
SIZES = {
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "BOOL": 1},
    **{f"{sign}{8 * size}": size for sign in "IU" for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a folder. `offset` and `size` are bytes of its shard `file`; `dtype` is safetensors' name."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    # SHA-256 of its bytes, lower-case hex.
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """As it stands in manifest.json."""
        return {**vars(self), "shape": list(self.shape)}


@dataclass(frozen=True)
class Blocks:
    """Digests of the blocks of each tensor, by name; `bytes` is a block's length."""

    bytes: int
    tensors: dict[str, tuple[str, ...]]


def block_digest(block: bytes | memoryview) -> str:
    """As it stands in blocks.json."""
    return hashlib.sha256(block).hexdigest()[:_BLOCK_DIGITS]


def describe_shard(path: Path) -> tuple[str, list[TensorEntry], dict[str, tuple[str, ...]]]:
    """SHA-256 of a safetensors file, its tensors and their blocks, in one reading. Raises WeightsError.

    The three digests of a block are computed at a time, where cores are idle: engines wait for them.
    """
    whole, entries, blocks = hashlib.sha256(), list[TensorEntry](), dict[str, tuple[str, ...]]()
    with path.open("rb") as file, ThreadPoolExecutor(2) as beside:
        start, header = read_header(file, path.name)
        file.seek(0)
        whole.update(file.read(start))
        for name, one in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = one["data_offsets"]
            tensor, digests = hashlib.sha256(), list[str]()
            for block in _blocks(file, end - begin, path.name):
                others = [beside.submit(digest.update, block) for digest in (whole, tensor)]
                digests.append(block_digest(block))
                for other in others:
                    other.result()
            blocks[name] = tuple(digests)
            place = (start + begin, end - begin, tensor.hexdigest())
            entries.append(TensorEntry(name, path.name, one["dtype"], tuple(one["shape"]), *place))
        if file.read(1):
            raise WeightsError(path.name, "has bytes that belong to no tensor")
    return whole.hexdigest(), entries, blocks


def read_header(file: BinaryIO, name: str) -> tuple[int, dict[str, Any]]:
    """Where the bytes of the tensors start, and the header of safetensors. Raises WeightsError."""
    length = int.from_bytes(file.read(8), "little")
    text = file.read(length) if length <= _MOST_HEADER else b""
    try:
        if len(text) != length:
            raise ValueError("it ends within its header")
        header = {key: one for key, one in json.loads(text).items() if key != "__metadata__"}
        end = 0
        for begin, beyond in sorted(one["data_offsets"] for one in header.values()):
            if begin != end or beyond < begin:
                raise ValueError("its tensors do not lie one after the other")
            end = beyond
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(name, f"cannot be read (truncated or not safetensors): {error}") from error
    return 8 + length, header


def _blocks(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    left = size
    while left:
        block = file.read(min(left, BLOCK_BYTES))
        if not block:
            raise WeightsError(name, "is truncated")
        left -= len(block)
        yield block


def parse_entry(raw: Any) -> TensorEntry:
    """An entry of manifest.json. Raises ManifestError for what cannot be one: its numbers say what is read where."""
    field = "manifest.json.tensors"
    try:
        entry = TensorEntry(
            raw["name"], raw["file"], raw["dtype"], tuple(raw["shape"]), raw["offset"], raw["size"], raw["sha256"]
        )
        numbers = (*entry.shape, entry.offset, entry.size)
        texts = (entry.name, entry.file, entry.dtype, entry.sha256)
        fits = all(type(one) is int and one >= 0 for one in numbers) and all(isinstance(one, str) for one in texts)
    except (KeyError, TypeError) as error:
        raise ManifestError(field, f"needs name, file, dtype, shape, offset, size and sha256: {error!r}") from error
    if not fits or Path(entry.file).name != entry.file:
        raise ManifestError(field, f"{entry.name!r} has a field of the wrong type")
    if len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
        raise ManifestError(field, f"{entry.name!r} has no SHA-256")
    if entry.size != math.prod(entry.shape) * SIZES.get(entry.dtype, 0):
        raise ManifestError(field, f"{entry.name!r}: {entry.size} bytes are not {entry.dtype} {list(entry.shape)}")
    return entry


def write_blocks(path: Path, tensors: dict[str, tuple[str, ...]]) -> None:
    """blocks.json of a folder."""
    path.write_text(json.dumps({"bytes": BLOCK_BYTES, "tensors": tensors}) + "\n")


def parse_blocks(text: bytes) -> Blocks:
    """Raises ManifestError."""
    try:
        raw = json.loads(text)
        return Blocks(int(raw["bytes"]), {name: tuple(one) for name, one in raw["tensors"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(BLOCKS, f"is not a list of blocks: {error!r}") from error
