# SPDX-License-Identifier: Apache-2.0
"""Authorities and certificates for tests, made by the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OPENSSL = shutil.which("openssl")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1")


def openssl(*arguments: str | Path) -> None:
    """Raises CalledProcessError with what it said."""
    subprocess.run([OPENSSL or "openssl", *map(str, arguments)], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Authority:
    """A folder with ca.crt and ca.key."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True)
        openssl(
            "req", "-x509", *KEY, "-subj", f"/CN={folder.name}", "-keyout", folder / "ca.key", "-out", folder / "ca.crt"
        )
        return cls(folder)

    @property
    def cert(self) -> bytes:
        return (self.folder / "ca.crt").read_bytes()

    def issue(self, folder: Path, name: str, trusted: bytes = b"") -> Path:
        """Fills the folder of a process: its certificate for the DNS name, and whom it trusts (default: this one)."""
        folder.mkdir(parents=True, exist_ok=True)
        signer = ("-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key")
        names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
        openssl("req", "-x509", *signer, *KEY, *names, "-keyout", folder / "tls.key", "-out", folder / "tls.crt")
        (folder / "ca.crt").write_bytes(trusted or self.cert)
        return folder
