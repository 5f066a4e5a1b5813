// SPDX-License-Identifier: Apache-2.0
export { connectorThrough, connectorTo } from "./http.ts";
export { openTls, TlsIdentity, type TlsMaterial, type TlsOptions, type TlsPeer } from "./identity.ts";
export { connectionTo, startRelay, type TlsRelay } from "./relay.ts";
export { type Role, roleName, roleOf, ROLES } from "./roles.ts";
