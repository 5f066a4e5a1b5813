# SPDX-License-Identifier: Apache-2.0
"""A file into an object store: in parts, a few at a time, its digest checked before the object exists."""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from whetstone_models.errors import WeightsError
from whetstone_models.reading import OnBytes

# A store takes 10,000 parts at most; the last may be small.
_MOST_PARTS = 9000
_PART_BYTES = 8 << 20
# So that at most this many parts, and one more, are in memory.
_AT_ONCE = 4


def upload_file(client: Any, place: dict[str, str], path: Path, sha256: str, on_bytes: OnBytes) -> None:
    """`client`: of botocore; `place`: Bucket and Key. Raises errors of botocore, OSError and WeightsError.

    Unless it succeeds there is no object and no part of one. `on_bytes` is called between parts, and may raise to stop.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _PART_BYTES:
            data = file.read()
            _check(path, hashlib.sha256(data).hexdigest(), sha256)
            client.put_object(**place, Body=data)
            on_bytes(len(data))
        else:
            _upload_parts(client, place, file, max(_PART_BYTES, -(-size // _MOST_PARTS)), path, sha256, on_bytes)


def _upload_parts(
    client: Any, place: dict[str, str], file: BinaryIO, part_bytes: int, path: Path, sha256: str, on_bytes: OnBytes
) -> None:
    checksum = _checksum(client)
    upload = {**place, "UploadId": client.create_multipart_upload(**place, **checksum)["UploadId"]}
    try:
        parts, digest = list[dict[str, Any]](), hashlib.sha256()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="upload") as pool:
            running = deque[Future[dict[str, Any]]]()
            for number, part in enumerate(_read_parts(file, part_bytes), start=1):
                digest.update(part)
                if len(running) == _AT_ONCE:
                    parts.append(running.popleft().result())
                running.append(pool.submit(_send, client, {**upload, **checksum}, number, part))
                on_bytes(len(part))
            parts += [one.result() for one in running]
        _check(path, digest.hexdigest(), sha256)
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    except BaseException:
        # Where that fails, too, the next trainer of the run sees to it.
        with contextlib.suppress(Exception):
            client.abort_multipart_upload(**upload)
        raise


def _checksum(client: Any) -> dict[str, str]:
    """The checksum of parts that the store verifies, unless the user says that it knows none."""
    is_wanted = client.meta.config.request_checksum_calculation == "when_supported"
    return {"ChecksumAlgorithm": "CRC32"} if is_wanted else {}


def _read_parts(file: BinaryIO, part_bytes: int) -> Iterator[bytes]:
    while part := file.read(part_bytes):
        yield part


def _send(client: Any, upload: dict[str, str], number: int, part: bytes) -> dict[str, Any]:
    answer = client.upload_part(**upload, PartNumber=number, Body=part)
    checksums = {name: one for name, one in answer.items() if name.startswith("Checksum") and name != "ChecksumType"}
    return {"PartNumber": number, "ETag": answer["ETag"], **checksums}


def _check(path: Path, digest: str, expected: str) -> None:
    if digest != expected:
        raise WeightsError(path.name, f"{path} has digest {digest}, expected {expected}: it is damaged")
