// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

// `task.toml` as Harbor 0.26 reads it: what it does not know is left alone, older names of a field are read too. What it has
// and is not played here is refused by its path, since a task without it would be another one.

const seconds = z.number().positive().max(86_400);
const variables = z.record(z.string(), z.string()).default({});
const notPlayed = (what: string) => z.undefined({ error: `is not played here: ${what}` }).optional();
const isEmpty = (value: unknown): boolean => value === 0 || (Array.isArray(value) && value.length === 0);
const noneOf = (what: string) => z.unknown().refine(isEmpty, `is not played here: ${what}`).optional();
const user = notPlayed("a sandbox has one user, and nobody is root");
const network = z
  .enum(["no-network", "public", "allowlist"])
  .optional()
  .describe("what the task may reach; the job's sandbox.network says what it does reach");

const size = z
  .string()
  .regex(/^\s*\d+(\.\d+)?\s*[GMK]\s*$/iu, 'must be a size such as "2G" or "512M"')
  .transform(mebibytes);

const Environment = z
  .looseObject({
    build_timeout_sec: seconds.default(600),
    docker_image: z.string().min(1).max(500).optional(),
    os: z
      .string()
      .transform((name) => name.toLowerCase())
      .pipe(z.literal("linux", "is not played here: only linux is"))
      .default("linux"),
    cpus: z.number().positive().max(1024).optional(),
    memory_mb: z.int().min(16).max(1_048_576).optional(),
    storage_mb: z.int().min(1).optional(),
    /** Of older versions. */
    memory: size.optional(),
    storage: size.optional(),
    gpus: noneOf("a sandbox has no GPU"),
    tpu: notPlayed("a sandbox has no TPU"),
    mcp_servers: noneOf("the agent's tools are those of its toolset"),
    healthcheck: notPlayed("nothing that a command starts outlasts it"),
    env: variables,
    workdir: z
      .string()
      .regex(/^\/[^\0]{0,999}$/u, "must be an absolute path")
      .optional(),
    network_mode: network,
  })
  .transform(({ memory, storage, memory_mb = memory, storage_mb = storage, ...environment }) => ({
    ...environment,
    memory_mb,
    storage_mb,
  }));

const Verifier = z.looseObject({
  timeout_sec: seconds.default(600),
  env: variables,
  user,
  environment_mode: z
    .literal("shared", "is not played here: the tests run where the agent was (shared)")
    .default("shared"),
  environment: notPlayed("the tests run where the agent was"),
  collect: noneOf("there are no services beside the task's own sandbox"),
  network_mode: network,
});

export const TaskConfigSchema = z.looseObject({
  schema_version: z.string().optional(),
  metadata: z.record(z.string(), z.unknown()).default({}),
  verifier: Verifier.prefault({}),
  agent: z.looseObject({ timeout_sec: seconds.optional(), user, network_mode: network }).prefault({}),
  environment: Environment.prefault({}),
  solution: z.looseObject({ env: variables }).prefault({}),
  steps: noneOf("tasks of several steps"),
});

export type TaskConfig = z.output<typeof TaskConfigSchema>;

const UNITS = { G: 1024, M: 1, K: 1 / 1024 } as const;

function mebibytes(text: string): number {
  const trimmed = text.trim().toUpperCase();
  return Math.floor(Number.parseFloat(trimmed) * UNITS[trimmed.at(-1) as keyof typeof UNITS]);
}
