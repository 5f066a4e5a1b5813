// SPDX-License-Identifier: Apache-2.0
// With TLS between all services: an unmodified `openai` client in a program without a certificate plays a job's episodes over the
// gateway's port for agents, and finds nothing else there.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { silentLogger as logger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { TlsIdentity } from "@whetstone/tls";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startTlsRuntime, type TlsRuntime } from "../../support/tls-runtime.ts";
import { WHET } from "../../support/whet.ts";

const JOB = "elsewhere";
const STEPS = 2;
const EPISODES = 2 * 4;

let runtime: TlsRuntime;
let agent: ChildProcess;
let url: string;
const told: { baseUrl: string; apiKey: string }[] = [];

beforeAll(async () => {
  runtime = await startTlsRuntime();
  const env = { PATH: process.env["PATH"], NODE_EXTRA_CA_CERTS: join(runtime.folder("gateway"), "ca.crt") };
  const program = join(import.meta.dirname, "openai-server.ts");
  agent = spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] });
  url = await new Promise<string>((resolve, reject) => {
    agent.once("exit", (code) => reject(new Error(`the agent ended with ${code}`)));
    createInterface({ input: agent.stdout! }).on("line", (line) => {
      if (line.startsWith("http")) resolve(line);
      else told.push(JSON.parse(line) as (typeof told)[number]);
    });
  });
}, 120_000);
afterAll(async () => {
  agent?.kill("SIGKILL");
  await runtime?.[Symbol.asyncDispose]();
}, 30_000);

it("trains what was sampled over the port, each episode under a key of its own", async () => {
  using identity = new TlsIdentity(runtime.folder("client"), { logger });
  await using jobs = createClient(JobService, runtime.address("controller"), { tls: identity.to("controller") });
  const spec = {
    name: JOB,
    model: { path: runtime.model },
    agent: { kind: "http", args: { url } },
    train: { seeds: { first: "1", count: "1000" } },
    algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 0.001 } } },
    loop: { steps: STEPS, batchGroups: 2 },
    sampling: { temperature: 1, maxTokens: 8 },
    limits: { episodeTimeout: "60s" },
  };
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) });
  const status = async () => (await jobs.getJob({ name: JOB })).job?.status;
  const isOver = async () => [JobPhase.SUCCEEDED, JobPhase.FAILED].includes((await status())?.phase ?? 0);
  await waitFor(isOver, { timeoutMs: 90_000, what: `${JOB} to end` });
  expect(await status()).toMatchObject({ phase: JobPhase.SUCCEEDED, step: STEPS });
  const env = {
    ...process.env,
    WHETSTONE_TLS_PATH: runtime.folder("client"),
    WHETSTONE_ENDPOINT: runtime.address("controller"),
  };
  const audit = execFileSync(process.execPath, [WHET, "jobs", "audit", JOB, "--json"], { env, encoding: "utf8" });
  const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: STEPS * EPISODES };
  expect(JSON.parse(audit)).toMatchObject(sound);
  expect(new Set(told.map(({ baseUrl }) => baseUrl))).toEqual(new Set([`https://${runtime.address("agents")}/v1`]));
  expect(new Set(told.map(({ apiKey }) => apiKey)).size).toBe(told.length);
}, 150_000);

it("is no way to keys, sessions, and episodes that have ended", async () => {
  const ca = readFileSync(join(runtime.folder("gateway"), "ca.crt"));
  const dispatcher = new Agent({ connect: { ca } });
  const ask = async (path: string, apiKey: string): Promise<number> => {
    const headers = { authorization: `Bearer ${apiKey}` };
    const body = JSON.stringify({ model: JOB, messages: [{ role: "user", content: "x" }] });
    const answer = await request(`https://${runtime.address("agents")}${path}`, {
      ...{ method: "POST", dispatcher, headers, body },
    });
    await answer.body.dump();
    return answer.statusCode;
  };
  const key = told[0]?.apiKey ?? "";
  try {
    expect(await ask("/v1/chat/completions", key)).toBe(401);
    expect(await ask("/s/any/key", key)).toBe(404);
    expect(await ask("/s/any/v1/chat/completions", key)).toBe(404);
  } finally {
    await dispatcher.destroy();
  }
});
