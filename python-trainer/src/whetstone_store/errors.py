# SPDX-License-Identifier: Apache-2.0
"""What an object store says when it does not do what it is asked for."""

from __future__ import annotations

from typing import Any

_FULL_CODES = frozenset(
    ("QuotaExceeded", "InsufficientStorage", "StorageFull", "XMinioStorageFull", "ServiceQuotaExceededException")
)
_INSUFFICIENT_STORAGE = 507
# By name, since this needs no botocore.
_CHECKSUM_ERRORS = frozenset(("FlexibleChecksumError", "ChecksumError"))


class StoreError(Exception):
    """A request of an object store failed; the same one may succeed later, when somebody has seen to it."""

    def __init__(self, message: str, is_full: bool = False, is_damage: bool = False) -> None:
        super().__init__(message)
        # Whether it failed for want of space; whether the store gave what it had, and that is not what was put there.
        self.is_full, self.is_damage = is_full, is_damage


def store_error(what: str, error: Exception) -> StoreError:
    """Of an error of botocore: "s3://b/p/weights/v3/model.safetensors: AccessDenied: Access Denied"."""
    response: dict[str, Any] = getattr(error, "response", None) or {}
    code = str(response.get("Error", {}).get("Code", ""))
    said = response.get("Error", {}).get("Message", "") or str(error)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    is_full = code in _FULL_CODES or status == _INSUFFICIENT_STORAGE
    return StoreError(f"{what}: {code + ': ' if code else ''}{said}", is_full, type(error).__name__ in _CHECKSUM_ERRORS)
