// SPDX-License-Identifier: Apache-2.0
export { FileConflictError, LimitError, type PlatformFailure, type PolicyFailure, SandboxError } from "./failure.ts";
export { openTogether } from "./open-together.ts";
export { OutputLog } from "./output-log.ts";
export { LEVELS } from "./sandbox.ts";
export type * from "./sandbox.ts";
export { CHANNEL_FD, SOCKETS } from "./process/arguments.ts";
export { egressProxy } from "./egress/proxy.ts";
export { HOST_AND_PORT, MOST_REACHED, PROXY_PORT, PROXY_VARIABLES, reachedSentence } from "./egress/reached.ts";
export { serveSockets, type SocketFolder } from "./egress/sockets.ts";
export { splice } from "./egress/splice.ts";
export { forwardPorts } from "./process/forward.ts";
export type { Guard } from "./process/guards.ts";
export { ProcessBackend, type ProcessBackendOptions, type ProcessOpenOptions } from "./process/process-backend.ts";
export type { ProcessSandbox } from "./process/process-sandbox.ts";
export type { Program } from "./process/program.ts";
export type { HostFate } from "./daemon/daemon-link.ts";
export type * from "./kubernetes/claims.ts";
// The backend `docker` is a way in of its own (./docker): whoever bundles agents that use sandboxes does not get a client of engines.
export { KubernetesBackend } from "./kubernetes/kubernetes-backend.ts";
