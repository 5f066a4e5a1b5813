# SPDX-License-Identifier: Apache-2.0
"""Errors as vLLM puts them on the wire: `{"error":{"message","type","param","code"}}`."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A request that is answered with `status` and an error object. `param` names the field at fault."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}


class StepAbandoned(BaseException):
    """What a step was computing is not wanted any more. No failure: nobody who handles those should see it."""


def invalid(field: str, reason: str) -> ApiError:
    """A field of the request body that has the wrong type or range (vLLM writes "Bad Request" with a space)."""
    return ApiError(400, f"{field}: {reason}", "Bad Request", f"body.{field}")


def queue_full(limit: int) -> ApiError:
    """I8: the waiting queue is bounded; the caller should send the request to another replica or later."""
    return ApiError(429, f"the waiting queue is full ({limit} requests)", "TooManyRequestsError")


def internal(reason: str) -> ApiError:
    """A failure of the engine itself."""
    return ApiError(500, reason, "InternalServerError")
