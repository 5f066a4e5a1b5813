# SPDX-License-Identifier: Apache-2.0
"""Who a process is to the others: certificates from a folder, as in services/libs/tls.

The folder holds ca.crt (one or several authorities), tls.crt and tls.key. A role is the DNS name `<role>.whetstone` in
a certificate; both ends of every connection check the other's.
"""

from whetstone_tls.identity import TlsError, TlsIdentity, role_of_names

__all__ = ["TlsError", "TlsIdentity", "role_of_names"]
