// SPDX-License-Identifier: Apache-2.0
import {
  MODULE_SETTINGS,
  NATS_SETTINGS,
  OBJECT_STORE_SETTINGS,
  POOL_SETTINGS,
  portSetting,
  SERVICE_SETTINGS,
} from "@whetstone/core";
import { z } from "zod";

const Settings = z.strictObject({
  ...SERVICE_SETTINGS,
  ...NATS_SETTINGS,
  ...MODULE_SETTINGS,
  ...POOL_SETTINGS,
  ...OBJECT_STORE_SETTINGS,
  /** Bodies of episodes above 512 KiB are put into the object store, and not into NATS. */
  storeEpisodes: z.boolean().default(false),
  /** RolloutService. 0 picks a free one. */
  grpcPort: portSetting(9082),
  /** Make the streams that all jobs share; false: wait until the controller has, as where rights are by role. */
  makeStreams: z.boolean().default(true),
  /** Base URLs of the gateway's replicas, with commas between; a host name stands for all of its addresses. */
  gatewayUrl: z
    .array(z.url({ protocol: /^https?$/ }))
    .min(1)
    .default(["http://127.0.0.1:8080"]),
  /** Their ports for agents, in the same order: what programs (`command`) are told; without a path. None: they are told `gatewayUrl`, with a session in it. */
  agentGatewayUrl: z
    .array(z.url({ protocol: /^https?$/ }).regex(/^\w+:\/\/[^/?#]+\/?$/, "must have no path"))
    .default([]),
  /** How agents on other machines (`http`) reach that port, by a load balancer say. Absent: as `agentGatewayUrl` says. */
  publicGatewayUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** EnvironmentService, "host:port", of the default pool's one env-runner. Not used where pools are watched. */
  envAddress: z.string().regex(/:\d+$/, 'must be "host:port"').default("127.0.0.1:9081"),
  /** Env-runners come and go, in pools that the controller keeps: learn of them from it. */
  watchPools: z.boolean().default(false),
  /** Most episodes in flight. How many it is follows the load of engines and environments. */
  maxEpisodes: z.number().int().min(1).max(20_000).default(256),
  /** Fewest, however busy the engines. */
  minEpisodes: z.number().int().min(1).default(16),
  /** How often the load is looked at; 0: never, maxEpisodes are always open. */
  loadIntervalMs: z.number().int().min(0).default(1_000),
  /** Requests that may wait in engines for each that runs there; with more, fewer episodes play. */
  targetWaiting: z.number().min(0.1).default(2),
  /** Share of the engines' cache that may be used while requests wait; with more, fewer episodes play. */
  targetKvUse: z.number().min(0.05).max(1).default(0.95),
  /** Where HTTP agents may deliver results later. Default: `host`. */
  callbackHost: z.string().optional(),
  /** How those agents reach it, "http://host:port". Default: the address it listens on. */
  callbackUrl: z.url({ protocol: /^https?$/ }).optional(),
  /** Folders, separated by commas, that programs of `command` agents may be let read, with all below them. Default: none. */
  programFolders: z.array(z.string().startsWith("/")).default([]),
  /** Takes the tasks of this pool only. Default: of all. */
  pool: z
    .string()
    .regex(/^[-_A-Za-z0-9]{1,128}$/)
    .optional(),
  /** A task that is neither finished nor reported as worked on is delivered again after this time. */
  ackWaitMs: z.number().int().min(500).default(15_000),
  /** Deliveries of one task that are played; the next is sealed as failed. */
  maxDeliver: z.number().int().min(1).default(10),
  /** An episode that no env-runner has had room for in this time is sealed as failed. */
  roomTimeoutMs: z.number().int().min(1_000).default(3_600_000),
  /** A job's process without an episode for this long is closed. */
  moduleIdleMs: z.number().int().min(100).default(600_000),
});

/** Settings of the orchestrator, from WHETSTONE_* variables. */
export const ConfigSchema = Settings.refine(
  ({ storeEpisodes, objectStore }) => !storeEpisodes || objectStore !== undefined,
  { path: ["storeEpisodes"], message: "needs objectStore: where bodies of episodes are to be put" },
);

export type OrchestratorConfig = z.output<typeof ConfigSchema>;
