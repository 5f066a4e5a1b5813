# SPDX-License-Identifier: Apache-2.0
"""Errors with a code. The codes and their gRPC statuses are those of services/libs/core and services/libs/rpc."""

from __future__ import annotations

from typing import Any

# Code → name of the gRPC status it leaves as.
STATUS_BY_CODE = {
    "INVALID_ARGUMENT": "INVALID_ARGUMENT",
    "UNSUPPORTED_SETTING": "INVALID_ARGUMENT",
    "NOT_FOUND": "NOT_FOUND",
    "CONFLICT": "ABORTED",
    "FAILED_PRECONDITION": "FAILED_PRECONDITION",
    "STALE_EPOCH": "FAILED_PRECONDITION",
    "UNAVAILABLE": "UNAVAILABLE",
    "DATA_LOSS": "DATA_LOSS",
    "CONTRACT_VIOLATION": "INTERNAL",
    "TRAINER_FAILED": "INTERNAL",
    "INTERNAL": "INTERNAL",
}
# What the caller may do: "safe" = repeat the call, "never" = the same call fails again.
_RETRY_BY_CODE = {"UNAVAILABLE": "safe"}


class TrainerError(Exception):
    """A failure with a code for programs, a message for people that says what to do, and where it happened."""

    def __init__(self, code: str, message: str, **context: Any) -> None:
        super().__init__(message)
        self.code = code
        self.context = context

    @property
    def status(self) -> str:
        return STATUS_BY_CODE[self.code]

    @property
    def retry(self) -> str:
        return _RETRY_BY_CODE.get(self.code, "never")


class SettingsError(TrainerError):
    """A field of the job's spec that the trainer cannot honour (I11). Never a silent no-op."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("INVALID_ARGUMENT", f"{path}: {reason}")
        self.violations = [{"path": path, "reason": reason}]


class ContractError(TrainerError):
    """An episode or manifest breaks the contract in proto/. Nothing was trained."""

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__("CONTRACT_VIOLATION", message, **context)
