// SPDX-License-Identifier: Apache-2.0
export { FileConflictError, LimitError, type PlatformFailure, type PolicyFailure, SandboxError } from "./failure.ts";
export { OutputLog } from "./output-log.ts";
export { LEVELS } from "./sandbox.ts";
export type * from "./sandbox.ts";
export { ProcessBackend, type ProcessBackendOptions } from "./process/process-backend.ts";
export type * from "./kubernetes/claims.ts";
export { KubernetesBackend, type KubernetesBackendOptions } from "./kubernetes/kubernetes-backend.ts";
