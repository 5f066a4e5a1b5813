# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can act on: each names the field or the tensor at fault and says why."""


class ModelError(Exception):
    """A model folder cannot be used. `field` is a dotted path, e.g. `config.json.rope_scaling.type`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason

    def as_json(self) -> dict[str, dict[str, str]]:
        """The one-line form that the command line prints."""
        return {"error": {"field": self.field, "reason": self.reason}}


class ConfigError(ModelError):
    """config.json is damaged, or describes a model that cannot be used."""


class UnsupportedModelError(ConfigError):
    """config.json describes a model that our transformer does not compute. transformers may know it."""


class WeightsError(ModelError):
    """The safetensors files are incomplete, damaged, or do not fit config.json. Nothing was loaded."""


class ManifestError(ModelError):
    """manifest.json is missing or malformed, or a file differs from what it lists."""
