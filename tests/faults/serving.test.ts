// SPDX-License-Identifier: Apache-2.0
// A policy stays served after its job: clients ask all the time, while its weights change, a job trains beside it, and the
// processes that serve it are killed.
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const LONG = { timeoutMs: 120_000 };

interface View {
  readonly serving: { readonly versions: { readonly version: string }[] };
  readonly engines?: number;
  readonly canaryEngines?: number;
  readonly url: string;
  readonly key?: string;
}

describe("a served policy", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;
  let url: string;
  let key: string;

  beforeAll(async () => {
    runtime = await startLocalRuntime("--engines", "3");
    jobs = createClient(JobService, runtime.address("controller"));
    await train("first", 2);
    ({ url, key = "" } = whet("serve", "first", "--name", "bot"));
  }, 180_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
  });

  function whet(...args: string[]): View {
    const { status, json, output } = runtime.whet(...args);
    expect(status, output).toBe(0);
    return json as View;
  }
  const view = (): View => whet("servings", "get", "bot");
  const phaseOf = async (name: string): Promise<JobPhase | undefined> =>
    (await jobs.getJob({ name }).catch(() => undefined))?.job?.status?.phase;
  const succeeded = (name: string) =>
    waitFor(async () => (await phaseOf(name)) === JobPhase.SUCCEEDED, { timeoutMs: 180_000 });
  async function train(name: string, steps: number): Promise<void> {
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, smallJob(name, runtime.model, { steps })) });
    await succeeded(name);
  }

  /** One question of a conversation of its own: which weights answered it. */
  async function ask(question: string): Promise<string> {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: "bot", max_tokens: 4, messages: [{ role: "user", content: question }] }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    return response.headers.get("x-whetstone-weights") ?? "";
  }

  /** Asks all the time while `work` runs; every answer has to be there. */
  async function whileAsked(work: () => Promise<void>): Promise<string[]> {
    const over = new AbortController();
    const answers: string[] = [];
    const client = async (name: number): Promise<void> => {
      for (let count = 0; !over.signal.aborted; count++) {
        answers.push(await ask(`${name}: question ${count}`));
        await delay(20);
      }
    };
    const clients = Promise.all([1, 2, 3, 4].map(client));
    try {
      await Promise.race([work(), clients]);
    } finally {
      over.abort();
      await clients;
    }
    return answers;
  }

  it("goes from canary to newest and back, and no call fails of it", async () => {
    const answers = await whileAsked(async () => {
      whet("servings", "canary", "bot", "first:1", "--percent", "50");
      await waitFor(() => (view().canaryEngines ?? 0) > 0, LONG);
      await delay(1000);
      whet("servings", "promote", "bot");
      await waitFor(() => view().engines === 3, LONG);
      whet("servings", "rollback", "bot");
      await waitFor(() => view().engines === 3, LONG);
    });
    expect(answers).toContain("canary");
    expect(answers).toContain("newest");
    expect(view().serving.versions.map(({ version }) => version)).toEqual(["1", "3", "4"]);
  }, 180_000);

  it("shares the engines with a job that trains, which is deleted with its weights afterwards", async () => {
    const answers = await whileAsked(async () => {
      await train("second", 3);
      expect(view().engines ?? 0).toBeGreaterThan(0);
      for (const name of ["second", "first"]) whet("jobs", "delete", name, "--yes");
      await waitFor(() => view().engines === 3, LONG);
    });
    expect(answers.length).toBeGreaterThan(20);
  }, 240_000);

  it("is what its clients get when an engine, and the controller, are killed", async () => {
    for (const service of ["engine-0", "controller", "engine-1"]) {
      const before = infoOf(service);
      const answers = await whileAsked(async () => {
        process.kill(before.pid ?? 0, "SIGKILL");
        await waitFor(() => infoOf(service).crashes > before.crashes, LONG);
        await waitFor(() => servedBy() === 3, LONG);
      });
      expect(answers.length).toBeGreaterThan(0);
    }
  }, 240_000);

  it("knows its clients again after the gateway was killed", async () => {
    const before = infoOf("gateway");
    process.kill(before.pid ?? 0, "SIGKILL");
    await waitFor(() => infoOf("gateway").crashes > before.crashes, LONG);
    await waitFor(
      () =>
        ask("hello again").then(
          () => true,
          () => false,
        ),
      LONG,
    );
    await whileAsked(() => delay(2000));
  }, 120_000);

  it("keeps what its clients say of answers, as tasks to train on", async () => {
    const say = async (path: string, body: object): Promise<{ id: string }> => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      const text = await response.text();
      expect(response.status, text).toBe(200);
      return JSON.parse(text) as { id: string };
    };
    for (const [question, reward] of [
      ["one", 1],
      ["two", 0],
    ] as const) {
      const messages = [{ role: "user", content: question }];
      const { id } = await say("/v1/chat/completions", { model: "bot", max_tokens: 4, messages });
      await say("/v1/feedback", { id, reward });
    }
    const file = join(runtime.data, "good.jsonl");
    expect(whet("servings", "feedback", "bot", "--jsonl", file, "--min-reward", "1")).toMatchObject({
      tasks: 1,
      answers: 2,
    });
    const {
      train: _,
      algorithm: __,
      agent: ___,
      environment: ____,
      ...rest
    } = smallJob("from-clients", runtime.model, { steps: 1, groups: 1 });
    const sft = { ...rest, train: { jsonl: file }, algorithm: { sft: {} } };
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, sft) });
    await succeeded("from-clients");
  }, 120_000);

  it("ends when it is told to, and a job that waited for an engine begins", async () => {
    whet("servings", "stop", "bot");
    await waitFor(async () => (await ask("are you there?").catch(String)).includes("401"), LONG);
    expect(runtime.whet("servings", "ls").json).toEqual({ servings: [] });
    await train("third", 1);
  }, 120_000);

  function infoOf(name: string) {
    const info = runtime.services().find((service) => service.name === name);
    if (!info) throw new Error(`no service ${name}`);
    return info;
  }

  /** The controller may be away. */
  function servedBy(): number {
    const { status, json } = runtime.whet("servings", "get", "bot");
    return status === 0 ? ((json as View).engines ?? 0) : 0;
  }
});
