// SPDX-License-Identifier: Apache-2.0
export type { Callers } from "./callers.ts";
export { type ClientOptions, createClient, type RpcClient } from "./client.ts";
export { type RpcServer, type ServerOptions, startServer } from "./server.ts";
export {
  type CallContext,
  type CallOptions,
  type Handlers,
  implement,
  type ServiceClient,
  type ServiceImplementation,
} from "./types.ts";
