// SPDX-License-Identifier: Apache-2.0
export { freePort } from "./free-port.ts";
export { findNatsServer, type NatsServerOptions, startNats, type TestNats } from "./nats-server.ts";
export { waitFor, type WaitOptions } from "./wait-for.ts";
