# SPDX-License-Identifier: Apache-2.0
"""What a NATS client of ours is told beside the address."""

from __future__ import annotations

import ssl
from typing import Any

from whetstone_tls import TlsIdentity


def nats_security(
    role: str, tls: TlsIdentity | None, credentials: str | None = None, authorities: str | None = None
) -> dict[str, Any]:
    """`role`: of our certificate. Of a server that is not ours: credentials file, and its certificate's authorities."""
    if credentials or authorities:
        trusted = {"tls": ssl.create_default_context(cafile=authorities)} if authorities else {}
        return {**trusted, **({"user_credentials": credentials} if credentials else {})}
    if tls is None:
        return {}
    # A role and not an address: servers of a cluster name each other by IP.
    return {"tls": tls.client_context(), "tls_hostname": "nats.whetstone", "inbox_prefix": f"_INBOX_{role}"}
