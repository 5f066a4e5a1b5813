// SPDX-License-Identifier: Apache-2.0
// A policy that is served under a name: what its keys open, at the port for agents.
import { createHash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServedNameSchema } from "@whetstone/proto/inference/v1/inference";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { eventually, type Gateway, serve, startGateway, TINY, user } from "../test/harness.ts";

const KEY = "wsk-a-key-of-the-web-site";
const sha256 = createHash("sha256").update(KEY).digest("hex");
let engines: FakeEngine[];
let gateway: Gateway;

beforeEach(async () => {
  engines = await Promise.all([FakeEngine.start(), FakeEngine.start()]);
  engines[0]!.label = "serve.bot:1";
  engines[1]!.label = "serve.bot.canary:2";
  gateway = await startGateway({ agentPort: 0 });
  await serve(gateway, "e0", engines[0]!.url, TINY, 1n, "serve.bot");
});
afterEach(async () => {
  await gateway.close();
  for (const engine of engines) await engine.kill();
});

type Told = MessageInitShape<typeof ServedNameSchema>;
const tell = (more: Partial<Told> = {}, limits: object = {}) =>
  gateway.fleet.putServings({
    servings: [{ name: "bot", policy: "serve.bot", keys: [{ name: "web", sha256, ...limits }], ...more } as Told],
  });

/** A right request of each dialect. */
const DIALECTS: [path: string, body: object][] = [
  ["/v1/chat/completions", { model: "bot", messages: [user("hi")] }],
  ["/v1/responses", { model: "bot", input: "hi" }],
  ["/v1/messages", { model: "bot", max_tokens: 5, messages: [user("hi")] }],
  ["/v1/completions", { model: "bot", prompt: "hi" }],
];
const CHAT = DIALECTS[0]!;

async function ask([path, body]: [string, object], key = KEY) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${gateway.agentsUrl}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

describe("a served name", () => {
  it.each(DIALECTS)("answers %s under its own name, streamed and whole", async (path, body) => {
    await tell();
    const whole = await ask([path, body]);
    expect(whole.status, whole.text).toBe(200);
    expect(JSON.parse(whole.text)).toMatchObject({ model: "bot" });
    expect(whole.headers.get("x-whetstone-weights")).toBe("newest");
    const streamed = await ask([path, { ...body, stream: true }]);
    expect(streamed.status).toBe(200);
    expect(streamed.text).not.toContain("serve.bot");
    expect(streamed.text).toContain('"bot"');
  });

  it("is answered by an adapter beside an engine's weights, under the adapter's label", async () => {
    await tell({ name: "lab", policy: "serve.lab" });
    const lab = ["/v1/chat/completions", { model: "lab", messages: [user("hi")] }] as [string, object];
    expect((await ask(lab)).status).toBe(404);
    const policy = { policy: "serve.lab", policyVersion: 3n, label: "serve.lab:3", modelPath: TINY };
    const put = (baseLabel: string) => gateway.fleet.putAdapters({ id: "e0", baseLabel, adapters: [policy] });
    await expect(put("serve.bot:2")).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await put("serve.bot:1");
    const answer = await ask(lab);
    expect(answer.status, answer.text).toBe(200);
    expect(engines[0]!.requests.map(({ model }) => model)).toEqual(["serve.lab:3"]);
    const { engines: listed } = await gateway.fleet.listEngines({});
    expect(listed[0]?.adapters).toMatchObject([{ policy: { label: "serve.lab:3" }, inFlight: 0 }]);
    // An engine that was started again knows it no more: it gets no calls until it is put right.
    engines[0]!.faults = [{ kind: "status", status: 404 }];
    const waiting = ask(lab);
    await eventually(async () => (await gateway.fleet.listEngines({})).engines[0]?.reason !== "");
    await serve(gateway, "e0", engines[0]!.url, TINY, 1n, "serve.bot");
    await put("serve.bot:1");
    expect((await waiting).status).toBe(200);
  });

  it("is the only model that its key names", async () => {
    await tell();
    const response = await fetch(`${gateway.agentsUrl}/v1/models`, { headers: { "x-api-key": KEY } });
    expect(await response.json()).toMatchObject({ data: [{ id: "bot" }] });
    const other = await ask(["/v1/chat/completions", { model: "serve.bot", messages: [user("hi")] }]);
    expect([other.status, other.text]).toEqual([404, expect.stringContaining('for the model \\"bot\\"')]);
  });

  it("is closed to keys that were not issued, or taken back", async () => {
    expect((await ask(CHAT)).status).toBe(401);
    await tell();
    expect((await ask(CHAT)).status).toBe(200);
    expect((await ask(CHAT, "another")).status).toBe(401);
    await tell({ keys: [] });
    expect((await ask(CHAT)).status).toBe(401);
  });

  it("answers 429 with the time to wait beyond a key's limit, in the form of the dialect", async () => {
    await tell({}, { requestsPerMinute: 2 });
    expect((await ask(CHAT)).status).toBe(200);
    expect((await ask(DIALECTS[3]!)).status).toBe(200);
    const refused = await ask(DIALECTS[2]!);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "30"]);
    expect(JSON.parse(refused.text)).toMatchObject({ type: "error", error: { type: "rate_limit_error" } });
  });

  it("counts requests that run until they have ended, also those whose client leaves", async () => {
    await tell({}, { maxRunning: 1 });
    engines[0]!.hold = true;
    const left = new AbortController();
    const url = `${gateway.agentsUrl}/v1/chat/completions`;
    const headers = { authorization: `Bearer ${KEY}` };
    const running = fetch(url, { method: "POST", headers, body: JSON.stringify(CHAT[1]), signal: left.signal });
    await eventually(() => Promise.resolve(engines[0]!.requests.length === 1));
    expect((await ask(CHAT)).status).toBe(429);
    left.abort();
    await expect(running).rejects.toThrow();
    engines[0]!.hold = false;
    engines[0]!.release();
    await eventually(async () => (await ask(CHAT)).status === 200);
  });
});

describe("what a client says of an answer", () => {
  const say = (about: object) => ask(["/v1/feedback", about]);
  /** What the controller finds; it takes nothing over. */
  const taken = async (stored: string[] = []) => (await gateway.fleet.takeFeedback({ stored })).feedback;

  it.each(DIALECTS.slice(0, 3))(
    "is told to the controller with the conversation of %s, and answered once it is stored",
    async (path, body) => {
      await tell();
      const { id } = JSON.parse((await ask([path, body])).text) as { id: string };
      let isAnswered = false;
      const said = say({ id, reward: 0.5, comment: "nearly" }).finally(() => (isAnswered = true));
      await eventually(async () => (await taken()).length === 1);
      const [feedback] = await taken();
      expect(feedback).toMatchObject({ serving: "bot" });
      const task = JSON.parse(feedback?.task ?? "") as { demonstration: object[] };
      const payload = {
        answer: id,
        reward: 0.5,
        comment: "nearly",
        key: "web",
        weights: "newest",
        label: "serve.bot:1",
      };
      expect(task).toMatchObject({ payload });
      expect(task.demonstration).toMatchObject([{ role: "user", content: "hi" }, { role: "assistant" }]);
      expect(isAnswered).toBe(false);
      expect(await taken([feedback?.id ?? ""])).toEqual([]);
      expect(JSON.parse((await said).text)).toEqual({ id, stored: true });
    },
  );

  it("is refused by field, of answers that are not known, and with keys of episodes", async () => {
    await tell();
    const { id } = JSON.parse((await ask(CHAT)).text) as { id: string };
    for (const [about, param] of [
      [{ reward: 1 }, "id"],
      [{ id }, "reward"],
      [{ id, reward: "good" }, "reward"],
      [{ id, reward: 1, comment: "x".repeat(10_001) }, "comment"],
    ] as const) {
      const refused = await say(about);
      expect([refused.status, (JSON.parse(refused.text) as { error: object }).error]).toMatchObject([400, { param }]);
    }
    expect((await say({ id: "chatcmpl-other", reward: 1 })).status).toBe(404);
    const { key } = await gateway.openKey("episode");
    expect((await ask(["/v1/feedback", { id, reward: 1 }], key)).status).toBe(403);
    expect(await taken()).toEqual([]);
  });
});

describe("a canary", () => {
  const talk = (index: number): [string, object] => [
    "/v1/chat/completions",
    { model: "bot", messages: [user(`question ${index}`)] },
  ];
  const canary = { canaryPolicy: "serve.bot.canary", canaryPercent: 50 };
  const weightsOf = async (index: number): Promise<string | null> =>
    (await ask(talk(index))).headers.get("x-whetstone-weights");

  it("answers its share of the conversations once an engine serves it", async () => {
    await tell(canary);
    for (let index = 0; index < 10; index++) expect(await weightsOf(index)).toBe("newest");
    await serve(gateway, "e1", engines[1]!.url, TINY, 2n, "serve.bot.canary");
    const chosen = await Promise.all(Array.from({ length: 40 }, (_, index) => weightsOf(index)));
    const ofCanary = chosen.filter((weights) => weights === "canary").length;
    expect(ofCanary).toBeGreaterThan(8);
    expect(ofCanary).toBeLessThan(32);
    expect(engines[1]!.requests).toHaveLength(ofCanary);
    const metrics = await (await fetch(`${gateway.httpUrl}/metrics`)).text();
    expect(metrics).toMatch(/served_calls_total\{serving="bot",weights="canary",outcome="answered".*\} \d+/);
    await tell();
    for (let index = 0; index < 10; index++) expect(await weightsOf(index)).toBe("newest");
  });
});
