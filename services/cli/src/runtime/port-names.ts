// SPDX-License-Identifier: Apache-2.0
/** Ports that a user may fix: `--<name>-port`, or WHETSTONE_<NAME>_PORT. */
export const PORT_NAMES = [
  "nats",
  "engine",
  "gateway",
  "gateway-grpc",
  "gateway-agents",
  "env-runner",
  "trainer",
  "orchestrator",
  "controller",
] as const;
export type PortName = (typeof PORT_NAMES)[number];
export type FixedPorts = Readonly<Partial<Record<PortName, number>>>;
