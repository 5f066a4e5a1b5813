// SPDX-License-Identifier: Apache-2.0
/** The service's side. A child imports "@whetstone/modules/child", whoever bundles "@whetstone/modules/bundle". */
export { type Child, type ChildCallOptions, type ChildOptions, isProcessDeath } from "./child-process.ts";
export { codeFault, digestOf, type ModuleCode } from "./code.ts";
export { type ChildLimits, DEFAULT_LIMITS } from "./limits.ts";
export { REACHED } from "./forward-sockets.ts";
export { SANDBOX_VARIABLES } from "./launch.ts";
export { HostProcess } from "./host-process.ts";
export { type HostIsolation, ModuleSandboxes, type WantedIsolation } from "./isolation.ts";
export { loadModule, type LoadOptions, placeOf } from "./load-module.ts";
export { type Lease, ModuleHost } from "./module-host.ts";
export { type HostedModule, ModuleHosts, type ModuleHostsOptions } from "./module-hosts.ts";
