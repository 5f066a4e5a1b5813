// SPDX-License-Identifier: Apache-2.0
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODULE_SETTINGS, portSetting, SERVICE_SETTINGS } from "@whetstone/core";
import { z } from "zod";

/** Settings of the env-runner, from WHETSTONE_* variables. */
export const ConfigSchema = z.strictObject({
  ...SERVICE_SETTINGS,
  ...MODULE_SETTINGS,
  /** EnvironmentService. 0 picks a free one. */
  grpcPort: portSetting(9081),
  /** Sessions at once; one more is RESOURCE_EXHAUSTED. */
  slots: z.number().int().min(1).default(2048),
  /** Longest session, whatever deadline its caller gives. */
  sessionTimeoutMs: z.number().int().min(1).default(3_600_000),
  /** How long an environment may take to close. */
  closeTimeoutMs: z.number().int().min(1).default(5_000),
  /** At SIGTERM open sessions may go on for so long before they are handed back. 0: handed back at once. */
  drainMs: z.number().int().min(0).default(0),
  /** host:port of the controller, which has the artifacts and sandbox pools that arguments name. Absent: none can be named. */
  artifactAddress: z.string().optional(),
  /** Folder of those that were fetched, and how much of it may be used. */
  artifactCachePath: z.string().default(join(tmpdir(), "whetstone-artifacts")),
  artifactCacheBytes: z
    .number()
    .int()
    .min(1)
    .default(8 * 2 ** 30),
  /** Folder with Math-Verify, as `whet setup --math-verify` makes it. Absent: jobs that want it are refused. */
  mathVerifyPath: z.string().optional(),
  /** Folder with installed MCP servers, which the sandboxes of such servers can read. Absent: jobs can start none of them. */
  mcpServersPath: z.string().startsWith("/").optional(),
  /** Folder of the indexes of corpora, which are built when they are first needed. */
  searchIndexPath: z.string().default(join(tmpdir(), "whetstone-search")),
  /** Chromium's program. Absent: the one that the system has installed. */
  browserPath: z.string().startsWith("/").optional(),
  /** Browsers at once, and episodes at once in each; who comes later waits. */
  browsers: z.number().int().min(1).max(256).default(4),
  browserContexts: z.number().int().min(1).max(200).default(16),
  /** Of all processes of one browser, MiB. */
  browserMemoryMib: z.number().int().min(512).default(4096),
  /** required: a browser runs in a sandbox or not at all; none: it runs on the machine, and only its own rules keep pages in. */
  browserSandbox: z.enum(["required", "none"]).default("required"),
  /** Folder with MiniWoB++, as `whet setup --miniwob` makes it. Absent: jobs that want it are refused. */
  miniwobPath: z.string().optional(),
  /**
   * Path of the program `sandboxd`. With it jobs may have sandboxes that are containers of the engine of this machine (DOCKER_HOST),
   * which is a right as large as root's. Absent: none may.
   */
  sandboxDaemonPath: z.string().min(1).optional(),
  /** A job's process without an open session for this long is closed. */
  moduleIdleMs: z.number().int().min(100).default(300_000),
});

export type EnvRunnerConfig = z.output<typeof ConfigSchema>;
