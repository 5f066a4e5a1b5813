// SPDX-License-Identifier: Apache-2.0
import { portSetting, SERVICE_SETTINGS } from "@whetstone/core";
import { z } from "zod";
import { FORMATS } from "./formats/index.ts";

/** Settings of the gateway, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  ...SERVICE_SETTINGS,
  /** Our own services. 0 picks a free one. */
  httpPort: portSetting(8080),
  /** Agents, which need the key of an episode and no certificate. 0 picks a free one. Absent: there is no such port. */
  agentPort: portSetting().unwrap().optional(),
  /** Ports for agents of all replicas, with commas between; a host name stands for all of its addresses. None: this is the only one. */
  peerUrl: z.array(z.url({ protocol: /^https?$/ })).default([]),
  /** Which of them is this replica's. */
  ownUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** Ports for our own services of all replicas, as in `peerUrl`: one that leaves hands its sessions over there. None: they have `drainMs` to end. */
  handoverUrl: z.array(z.url({ protocol: /^https?$/ })).default([]),
  /** FleetService. 0 picks a free one. */
  grpcPort: portSetting(9080),
  /** ArtifactService of the controller, "host:port", from which models that were pushed are read. Absent: their folders are here. */
  artifactAddress: z.string().optional(),
  /** Engines known from the start, "<id>=<url>". */
  engines: z.array(z.string().regex(/^[^=\s]+=https?:\/\/\S+$/, 'must be "<id>=http://<host>:<port>"')).default([]),
  /** How models write thoughts and calls of tools; "auto": as their chat templates show. */
  answerFormat: z.enum(["auto", ...FORMATS.map(({ name }) => name)]).default("auto"),
  /** Calls on one engine at a time. */
  maxInFlightPerEngine: z.number().int().min(1).default(512),
  /** Calls that may wait for one policy; one more is answered 429. */
  maxWaiting: z.number().int().min(0).default(16_384),
  /** Of these, calls of one job's sessions, or of one session that is no job's, or without any. */
  maxWaitingPerJob: z.number().int().min(0).default(8192),
  /** Of these, calls of one session, and so of one key. */
  maxWaitingPerSession: z.number().int().min(0).default(1024),
  /** How many calls busier than the idlest a session's own engine may be. */
  stickyTolerance: z.number().int().min(0).default(16),
  /** From receipt to answer, unless the client says x-whetstone-timeout-ms. */
  requestTimeoutMs: z.number().int().min(1).default(300_000),
  maxSessions: z.number().int().min(1).default(20_000),
  /** How long sessions may go on here when this process is told to end, and be handed over. What is left then is lost, and its episodes are played again. */
  drainMs: z.number().int().min(0).default(0),
  sessionIdleMs: z.number().int().min(1).default(900_000),
  maxBodyBytes: z
    .number()
    .int()
    .min(1024)
    .default(32 * 1024 * 1024),
  /** Within so long a request must have come in whole; one that has not is answered 408 and dropped. */
  receiveTimeoutMs: z.number().int().min(100).default(60_000),
  /** Open connections at each HTTP port; further ones are dropped at once. */
  maxConnections: z.number().int().min(1).default(20_000),
  healthIntervalMs: z.number().int().min(10).default(1000),
  /** An engine that is busy computing may answer late; three answers in a row must be missing. */
  healthTimeoutMs: z.number().int().min(10).default(5000),
  /** How long a fenced engine must say nothing before what it still has is taken back. An early end costs tokens, no truth. */
  drainQuietMs: z.number().int().min(1).default(50),
});

export type GatewayConfig = z.output<typeof ConfigSchema>;
