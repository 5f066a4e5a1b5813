// SPDX-License-Identifier: Apache-2.0
// Adapters that a job has trained, served from the engines of the weights which they stand beside.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const LONG = { timeoutMs: 120_000 };

interface View {
  readonly engines?: number;
  readonly canaryEngines?: number;
  readonly message?: string;
  readonly url: string;
  readonly key?: string;
}

describe("adapters beside a served model", () => {
  let runtime: LocalRuntime;
  const keys = new Map<string, string>();
  let url = "";

  beforeAll(async () => {
    runtime = await startLocalRuntime("--engines", "2");
    train("adapted");
    serve(runtime.model, "base");
  }, 240_000);
  afterAll(() => runtime[Symbol.asyncDispose]());

  function whet(...args: string[]): View {
    const { status, json, output } = runtime.whet(...args);
    expect(status, output).toBe(0);
    return json as View;
  }
  const view = (name: string): View => whet("servings", "get", name);
  const refusalOf = (...args: string[]): string => runtime.whet(...args).output;

  /** No episode of the tiny model is rewarded: entropy moves it. */
  function train(name: string): void {
    const path = join(runtime.data, `${name}.yaml`);
    const optimizer = { learningRate: 0.05 };
    const job = {
      ...smallJob(name, runtime.model, { steps: 2, groups: 2 }),
      model: { path: runtime.model, lora: { rank: 2, alpha: 4 } },
      algorithm: { policyGradient: { groupSize: 4, entropyCoefficient: 1, optimizer } },
    };
    writeFileSync(path, stringify(job));
    whet("train", path);
  }

  function serve(source: string, name: string, ...flags: string[]): void {
    const served = whet("serve", source, "--name", name, ...flags);
    keys.set(name, served.key ?? "");
    url = served.url;
  }

  /** Log-probabilities of a greedy answer. */
  async function ask(name: string, question = "which way?"): Promise<number[]> {
    const request = { model: name, max_tokens: 6, temperature: 0, logprobs: true };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.get(name) ?? ""}` },
      body: JSON.stringify({ ...request, messages: [{ role: "user", content: question }] }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
    const answer = JSON.parse(text) as { choices: { logprobs: { content: { logprob: number }[] } }[] };
    return answer.choices[0]?.logprobs.content.map(({ logprob }) => logprob) ?? [];
  }

  const apart = (a: number[], b: number[]): number => Math.max(...a.map((each, i) => Math.abs(each - (b[i] ?? 0))));

  it("answer as the weights do that they were merged into, without engines of their own", async () => {
    serve("adapted", "one", "--beside", "base");
    serve("adapted:1", "two", "--beside", "base");
    expect(view("base").engines).toBe(2);
    expect([view("one").engines, view("two").engines]).toEqual([2, 2]);
    const answers = await Promise.all(["base", "one", "two"].map((name) => ask(name)));
    const [base = [], one = [], two = []] = answers;
    expect(apart(base, one)).toBeGreaterThan(0.01);
    expect(apart(one, two)).toBeGreaterThan(0.01);
    serve("adapted", "merged");
    expect(apart(await ask("merged"), one)).toBeLessThan(0.001);
  }, 180_000);

  it("get other weights, and a canary, and no call fails of it", async () => {
    const over = new AbortController();
    const answers: number[] = [];
    const client = async (own: number): Promise<void> => {
      for (let count = 0; !over.signal.aborted; count++) answers.push(...(await ask("one", `${own}: ${count}`)));
    };
    const clients = Promise.all([1, 2, 3].map(client));
    const work = async (): Promise<void> => {
      whet("servings", "set", "one", "adapted:1");
      await waitFor(async () => apart(await ask("one"), await ask("two")) < 0.001, LONG);
      whet("servings", "canary", "one", "adapted", "--percent", "50");
      await waitFor(() => (view("one").canaryEngines ?? 0) > 0, LONG);
      whet("servings", "promote", "one");
      await waitFor(async () => apart(await ask("one"), await ask("merged")) < 0.001, LONG);
    };
    await Promise.race([work(), clients]).finally(() => {
      over.abort();
    });
    await clients;
    expect(answers.length).toBeGreaterThan(100);
  }, 180_000);

  it("are there again after the engine was killed, and after the controller was", async () => {
    for (const service of ["engine-0", "engine-1", "controller"]) {
      const before = infoOf(service);
      process.kill(before.pid ?? 0, "SIGKILL");
      await waitFor(() => infoOf(service).crashes > before.crashes, LONG);
      expect(apart(await ask("one"), await ask("merged"))).toBeLessThan(0.001);
    }
  }, 240_000);

  function infoOf(name: string): { readonly pid?: number; readonly crashes: number } {
    return runtime.services().find((service) => service.name === name) ?? { crashes: 0 };
  }

  it("keep the weights that they stand beside where they are", () => {
    expect(refusalOf("servings", "stop", "base")).toContain("one, two stands beside");
    expect(refusalOf("servings", "set", "base", "adapted")).toContain("one, two stands beside");
    expect(refusalOf("serve", "adapted", "--name", "three", "--beside", "nobody")).toContain(
      "beside: nothing is served as",
    );
    expect(refusalOf("serve", "adapted", "--name", "three", "--beside", "one")).toContain("is an adapter itself");
    expect(refusalOf("serve", runtime.model, "--name", "three", "--beside", "base")).toContain(
      "no adapter_config.json",
    );
    expect(refusalOf("serve", "adapted", "--beside", "base", "--weight", "2")).toContain("--weight");
  });

  it("end, and their clients are told", async () => {
    whet("servings", "stop", "one");
    await waitFor(
      () =>
        ask("one").then(
          () => false,
          (error: unknown) => String(error).includes("401"),
        ),
      LONG,
    );
    whet("servings", "stop", "two");
    await waitFor(() => !refusalOf("servings", "ls").includes("two"), LONG);
    whet("servings", "stop", "base");
  }, 60_000);
});
