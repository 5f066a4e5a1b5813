// SPDX-License-Identifier: Apache-2.0
/** The service's side. A child imports "@whetstone/modules/child", whoever bundles "@whetstone/modules/bundle". */
export {
  type Child,
  type ChildCallOptions,
  type ChildLimits,
  type ChildOptions,
  DEFAULT_LIMITS,
  isProcessDeath,
} from "./child-process.ts";
export { codeFault, digestOf, type ModuleCode } from "./code.ts";
export { HostProcess } from "./host-process.ts";
export { loadModule, type LoadOptions, placeOf } from "./load-module.ts";
export { type Lease, ModuleHost } from "./module-host.ts";
export { ModuleHosts, type ModuleHostsOptions } from "./module-hosts.ts";
