// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import { sleep } from "@whetstone/core";
import { ensurePlatform, LEDGER_BUCKET, openKv } from "@whetstone/messaging";
import { EpochRecordSchema } from "@whetstone/proto/events/v1/events";
import { describe, expect, it } from "vitest";
import { freePort, type ScriptedEngine, startNats, startScriptedEngine, waitFor } from "./index.ts";

interface Choice {
  token_ids: number[];
  finish_reason: string | null;
  weight_versions: { version: string; start: number; end: number }[] | null;
  logprobs: { content: { token_id: number; logprob: number }[] };
}

function post(engine: ScriptedEngine, path: string, body?: object): Promise<Response> {
  return fetch(engine.url + path, { method: "POST", ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
}

function generate(engine: ScriptedEngine, extra: object = {}): Promise<Response> {
  const sampling_params = { max_tokens: 4, logprobs: 0 };
  return post(engine, "/inference/v1/generate", {
    request_id: "r1",
    token_ids: [10, 20, 30, 40],
    sampling_params,
    ...extra,
  });
}

function connects(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return once(socket, "connect")
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}

async function whole(response: Promise<Response>): Promise<Choice> {
  return ((await (await response).json()) as { choices: [Choice] }).choices[0];
}

async function streamed(response: Response): Promise<Choice[]> {
  const events = (await response.text()).split("\n\n").filter((event) => event !== "");
  expect(events.at(-1)).toBe("data: [DONE]");
  return events.slice(0, -1).map((event) => (JSON.parse(event.slice(6)) as { choices: [Choice] }).choices[0]);
}

describe("scripted engine", () => {
  it("answers whole and streamed alike", async () => {
    await using engine = await startScriptedEngine({ label: "fl-1:0" });
    const one = await whole(generate(engine));
    expect(one).toMatchObject({
      token_ids: [11, 21, 31, 41],
      finish_reason: "length",
      weight_versions: [{ version: "fl-1:0", start: 0, end: 4 }],
    });
    const chunks = await streamed(await generate(engine, { stream: true }));
    expect(chunks.flatMap((chunk) => chunk.token_ids)).toEqual(one.token_ids);
    expect(chunks.flatMap((chunk) => chunk.logprobs.content)).toEqual(one.logprobs.content);
    expect(chunks.at(-1)).toMatchObject({ finish_reason: "length", weight_versions: one.weight_versions });
    expect(engine.requests).toHaveLength(2);
  });

  it("pauses by abort within a stream, switches, and runs queued requests on the new label", async () => {
    await using engine = await startScriptedEngine({ label: "v1", tokenMs: 20, script: longScript(200) });
    const running = whole(generate(engine, { sampling_params: { max_tokens: 200 } }));
    await waitFor(() => engine.state.tokensGenerated > 2);
    expect((await post(engine, "/pause?mode=abort&clear_cache=true")).status).toBe(200);
    const cut = await running;
    expect(cut.finish_reason).toBe("abort");
    expect(cut.weight_versions).toEqual([{ version: "v1", start: 0, end: cut.token_ids.length }]);
    const frozen = engine.state.tokensGenerated;
    const queued = whole(generate(engine));
    await sleep(60);
    expect(engine.state.tokensGenerated).toBe(frozen);
    await post(engine, "/collective_rpc", { method: "reload_weights", kwargs: { weights_path: "/w/v2" } });
    await post(engine, "/update_weight_version", { new_version: "v2" });
    await post(engine, "/resume");
    expect((await queued).weight_versions?.[0]?.version).toBe("v2");
    expect(engine.controlCalls).toEqual([
      "pause mode=abort",
      "collective_rpc reload_weights /w/v2",
      "label v2",
      "resume",
    ]);
  });

  it("splits spans when weights change under a kept request", async () => {
    await using engine = await startScriptedEngine({ label: "v1", tokenMs: 5, script: longScript(30) });
    const running = whole(generate(engine, { sampling_params: { max_tokens: 30 } }));
    await waitFor(() => engine.state.tokensGenerated > 2);
    await post(engine, "/pause?mode=keep");
    await post(engine, "/update_weight_version", { new_version: "v2" });
    await post(engine, "/resume");
    const spans = (await running).weight_versions ?? [];
    expect(spans.map(({ version }) => version)).toEqual(["v1", "v2"]);
    expect(spans[0]?.end).toBe(spans[1]?.start);
    expect(spans[1]?.end).toBe(30);
  });

  it("aborts by id and frees the slot of one who leaves", async () => {
    await using engine = await startScriptedEngine({ firstTokenMs: 0, tokenMs: 50, script: longScript(500) });
    const running = whole(generate(engine, { sampling_params: { max_tokens: 500 } }));
    await waitFor(() => engine.state.tokensGenerated > 0);
    await post(engine, "/abort_requests", { request_ids: ["generate-tokens-r1"] });
    expect((await running).finish_reason).toBe("abort");
    const leave = new AbortController();
    const url = `${engine.url}/inference/v1/generate`;
    const body = JSON.stringify({ token_ids: [1], sampling_params: { max_tokens: 500 }, stream: true });
    const response = await fetch(url, { method: "POST", body, signal: leave.signal });
    leave.abort();
    await response.text().catch(() => "");
    await waitFor(() => engine.running === 0);
  });

  it("strikes as told, so many times", async () => {
    await using engine = await startScriptedEngine({ label: "v1" });
    engine.inject("generate", { kind: "status", status: 500 });
    engine.inject("generate", { kind: "wrong-label", label: "v0" });
    engine.inject("generate", { kind: "no-label" });
    engine.inject("generate", { kind: "drop", afterTokens: 2 });
    engine.inject("reload", { kind: "status", status: 500 });
    expect((await generate(engine)).status).toBe(500);
    expect((await whole(generate(engine))).weight_versions?.[0]?.version).toBe("v0");
    expect((await whole(generate(engine))).weight_versions).toEqual([]);
    await expect(whole(generate(engine))).rejects.toThrow();
    expect((await post(engine, "/collective_rpc", { method: "reload_weights" })).status).toBe(500);
    expect(engine.state.weightsPath).toBeUndefined();
    engine.inject("generate", { kind: "hang" });
    await expect(fetch(`${engine.url}/inference/v1/generate`, hanging())).rejects.toThrow();
    expect((await whole(generate(engine))).finish_reason).toBe("length");
  });

  it.each([
    [{ token_ids: [] }, 400],
    [{ token_ids: [-1] }, 400],
    [{ model: "other" }, 404],
    [{ sampling_params: {} }, 400],
  ])("refuses %j with %i and vLLM's error object", async (body, status) => {
    await using engine = await startScriptedEngine();
    const response = await generate(engine, body);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { code: status } });
  });

  it("forgets its label in a crash", async () => {
    await using engine = await startScriptedEngine({ label: "v9" });
    engine.crash();
    expect(await (await fetch(`${engine.url}/weight_info`)).json()).toEqual({ weight_version: "default" });
    expect(await (await fetch(`${engine.url}/metrics`)).text()).toContain("vllm:num_requests_running");
  });
});

function longScript(count: number) {
  return () => ({ tokenIds: Array<number>(count).fill(7), logprobs: Array<number>(count).fill(-1) });
}

function hanging(): RequestInit {
  const body = JSON.stringify({ token_ids: [1], sampling_params: { max_tokens: 1 } });
  return { method: "POST", body, signal: AbortSignal.timeout(100) };
}

describe("nats server", () => {
  it("keeps its store over a kill, and leaves nothing behind", async () => {
    const nats = await startNats();
    await using nc = await nats.connect();
    await ensurePlatform(nc);
    await nats.restart();
    await waitFor(() => openKv(nc, LEDGER_BUCKET, EpochRecordSchema, { timeoutMs: 500 }));
    await nats[Symbol.asyncDispose]();
    expect(existsSync(nats.storeDir)).toBe(false);
  });

  it.skipIf(process.platform !== "linux")("ends with the process that started it, however that ends", async () => {
    const script = `import { startNats } from "./index.ts"; console.log((await startNats()).port); setInterval(() => {}, 1e6);`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { cwd: import.meta.dirname });
    const port = Number(String((await once(child.stdout, "data"))[0]));
    expect(await connects(port)).toBe(true);
    child.kill("SIGKILL");
    await waitFor(() => connects(port).then((is) => !is));
  });

  it("shows the server's own words when the configuration is wrong", async () => {
    await expect(startNats({ configuration: "no_such_setting: 1" })).rejects.toThrow(/no_such_setting/);
  });
});

it("waits, and says for what it waited", async () => {
  let n = 0;
  expect(await waitFor(() => (n += 1) > 3 && "yes")).toBe("yes");
  const never = waitFor(() => Promise.reject(new Error("not yet")), { timeoutMs: 30, what: "rain" });
  await expect(never).rejects.toMatchObject({ message: "waited 30 ms for rain", cause: new Error("not yet") });
  expect(await freePort()).toBeGreaterThan(0);
});
