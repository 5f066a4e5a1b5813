// SPDX-License-Identifier: Apache-2.0
// The proxy before a server that is written from SGLang's schemas, with the PyTorch engine's tokens.
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, chat, chatStream, initModel, startGateway, tempFolder, user } from "../../../test/harness.ts";
import { startRealEngine } from "../../../test/real-engine.ts";
import { type SglangOptions, type SglangServer, startSglangServer } from "../../../test/sglang-server.ts";
import { type EngineProxy, startProxy } from "../app.ts";
import { type ProxyConfig, ProxyConfigSchema } from "../config.ts";
import { UNLABELLED } from "./control.ts";

const stack = new AsyncDisposableStack();
let model: string;
let engine: string;

beforeAll(async () => {
  model = initModel(stack.use(tempFolder()));
  engine = stack.use(await startRealEngine(model, "unused")).url;
}, 120_000);
afterAll(() => stack.disposeAsync());

interface Behind extends AsyncDisposable {
  readonly sglang: SglangServer;
  readonly proxy: EngineProxy;
}

async function startBehind(options: SglangOptions = {}, more: Partial<ProxyConfig> = {}): Promise<Behind> {
  const own = new AsyncDisposableStack();
  const sglang = own.use(await startSglangServer(engine, model, options));
  const proxy = own.use(await proxyOf(sglang, more));
  return { sglang, proxy, [Symbol.asyncDispose]: () => own.disposeAsync() };
}

function proxyOf({ url: engineUrl }: { readonly url: string }, more: Partial<ProxyConfig> = {}): Promise<EngineProxy> {
  const config = ProxyConfigSchema.parse({ engineUrl, dataPort: 0, controlPort: 0, ...more });
  return startProxy(config, { logger: silentLogger });
}

interface Answer {
  readonly status: number;
  readonly label: string | null;
  readonly body: {
    readonly error?: { readonly message: string };
    readonly choices?: readonly object[];
  };
}

async function call(base: string, route: string, sent?: object): Promise<Answer> {
  const [method = "", path = ""] = route.split(" ");
  const response = await fetch(base + path, { method, ...(sent && { body: JSON.stringify(sent) }) });
  const text = await response.text();
  const label = response.headers.get("x-weight-version");
  const body = (text.startsWith("{") ? JSON.parse(text) : { events: text }) as Answer["body"];
  return { status: response.status, label, body };
}

const GENERATE = "POST /inference/v1/generate";
function asking(sampling: object = {}, fields: object = {}): object {
  return { token_ids: [65, 66], sampling_params: { max_tokens: 4, logprobs: 0, ...sampling }, ...fields };
}
const LONG = { max_tokens: 900, ignore_eos: true };

describe("a release of SGLang", () => {
  it.each<[string, SglangOptions, RegExp]>([
    ["0.5.2", { version: "0.5.2.post1" }, /SGLang 0\.5\.2\.post1 .* sampling_seed and extra_key .*from 0\.5\.3 on/],
    ["no pauses", { without: ["/pause_generation"] }, /POST \/pause_generation \(from 0\.4\.9 on\)/],
    ["no labels", { isUnlabelled: true }, /weight_version in \/model_info \(from 0\.5\.1 on\)/],
    ["the original log-probabilities", { isOriginal: true }, /without SGLANG_RETURN_ORIGINAL_LOGPROB/],
    ["several tokenizer workers", { workers: 2 }, /--tokenizer-worker-num 1, not 2/],
    ["no metrics", { without: ["/metrics"] }, /--enable-metrics/],
  ])("with %s is refused, and told what it lacks", async (_name, options, message) => {
    await using behind = await startBehind(options);
    for (const route of ["GET /health", "GET /is_paused", "GET /v1/models"]) {
      const { status, body } = await call(behind.proxy.controlUrl, route);
      expect({ status, message: body.error?.message }).toEqual({
        status: 501,
        message: expect.stringMatching(message),
      });
    }
  });

  it("that has all of it is found, and tells of itself what may be told", async () => {
    using sees = tempFolder();
    writeFileSync(join(sees.path, "config.json"), '{"vision_config": {}}');
    await using sglang = await startSglangServer(engine, sees.path, { version: "0.5.3" });
    await using proxy = await proxyOf(sglang);
    const { controlUrl: url } = proxy;
    // Pictures do not pass, whatever the model takes.
    const can = { modalities: ["text"], names_support: ["top_k"], object_store: "" };
    const card = { id: sees.path, object: "model", root: sees.path, max_model_len: 1024, ...can };
    expect((await call(url, "GET /v1/models")).body).toEqual({ object: "list", data: [card] });
    expect((await call(url, "GET /server_info")).body).toEqual({
      ...{ engine: "sglang", version: "0.5.3", logprobs_mode: "processed_logprobs" },
    });
    expect((await call(url, "POST /init_weight_transfer_engine", {})).status).toBe(404);
  });

  it("is not looked for where the setting says vLLM", async () => {
    await using behind = await startBehind({}, { engineKind: "vllm" });
    expect((await call(behind.proxy.controlUrl, "GET /is_paused")).status).toBe(404);
  });
});

describe("labels", () => {
  it("come with a gateway's calls, streamed and not", async () => {
    await using behind = await startBehind();
    const { dataUrl: url, controlUrl } = behind.proxy;
    await call(controlUrl, "POST /update_weight_version", { new_version: "job:1" });
    await using gateway = await startGateway({ healthIntervalMs: 1000 });
    await gateway.fleet.registerEngine({ id: "e0", url, controlUrl });
    const policy = { policy: "job", policyVersion: 1n, label: "job:1", modelPath: model };
    await gateway.fleet.unfenceEngine({ id: "e0", policy });
    expect((await chat(gateway, "s", [user("x")], { max_tokens: 4 })).status).toBe(200);
    const chunks = await chatStream(gateway, "t", [user("x")], { max_tokens: 4 });
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("length");
    for (const session of ["s", "t"])
      expect((await calls(gateway, session)).calls[0]?.versionSpans).toMatchObject([{ policyVersion: 1n }]);
  });

  it.each([true, false])("that change under an answer (stream: %s) make it none", async (stream) => {
    await using behind = await startBehind();
    const { sglang, proxy } = behind;
    const answer = call(proxy.dataUrl, GENERATE, asking(LONG, { stream }));
    await expect.poll(() => sglang.calls.filter(({ body }) => "rid" in body).length).toBe(1);
    sglang.label = "other";
    const { status, body } = await answer;
    const text = JSON.stringify(body).replaceAll("\\", "");
    expect(text).toContain('the label of the weights was "default" when this began, and is "other"');
    expect(text).not.toContain('"finish_reason":"length"');
    if (!stream) expect(status).toBe(503);
    // The next one begins under what SGLang says it has.
    expect(await call(proxy.dataUrl, GENERATE, asking())).toMatchObject({ status: 200, label: "other" });
  });

  it("are not those of before for weights that were loaded and not named, though the proxy was killed", async () => {
    await using behind = await startBehind();
    const { sglang, proxy } = behind;
    await call(proxy.controlUrl, "POST /pause");
    const load = { method: "reload_weights", kwargs: { weights_path: model } };
    expect((await call(proxy.controlUrl, "POST /collective_rpc", load)).status).toBe(200);
    expect((await call(proxy.controlUrl, "GET /weight_info")).body).toEqual({ weight_version: "default" });
    await using next = await proxyOf(sglang);
    expect((await call(next.controlUrl, "GET /weight_info")).body).toEqual({ weight_version: UNLABELLED });
    expect(await call(next.dataUrl, GENERATE, asking())).toMatchObject({ status: 200, label: UNLABELLED });
    // The one that loaded them resumes under the label that it had, as its caller gave no other.
    await call(proxy.controlUrl, "POST /resume");
    expect(await call(proxy.dataUrl, GENERATE, asking())).toMatchObject({ status: 200, label: "default" });
  });
});

describe("a pause", () => {
  it("with mode=keep is refused, and changes nothing", async () => {
    await using behind = await startBehind();
    expect((await call(behind.proxy.controlUrl, "POST /pause?mode=keep")).status).toBe(501);
    expect((await call(behind.proxy.controlUrl, "GET /is_paused")).body).toEqual({ is_paused: false });
    expect((await call(behind.proxy.dataUrl, GENERATE, asking())).status).toBe(200);
  });

  it("ends a request that came to SGLang when that was paused already", async () => {
    await using behind = await startBehind();
    await call(behind.proxy.dataUrl, GENERATE, asking());
    await call(behind.sglang.url, "POST /pause_generation", {});
    const late = call(behind.proxy.dataUrl, GENERATE, asking());
    await expect.poll(() => behind.sglang.calls.filter(({ body }) => "rid" in body).length).toBe(2);
    expect((await call(behind.proxy.controlUrl, "POST /pause")).status).toBe(200);
    expect((await late).body.choices?.[0]).toMatchObject({ token_ids: [], finish_reason: "abort" });
  });

  it("that fails leaves it running", async () => {
    const without: string[] = [];
    await using behind = await startBehind({ without });
    await call(behind.proxy.controlUrl, "GET /is_paused");
    without.push("/pause_generation");
    expect((await call(behind.proxy.controlUrl, "POST /pause")).status).toBe(500);
    expect((await call(behind.proxy.controlUrl, "GET /is_paused")).body).toEqual({ is_paused: false });
    expect((await call(behind.proxy.dataUrl, GENERATE, asking())).status).toBe(200);
  });
});

it("tells SGLang that a caller has left", async () => {
  await using behind = await startBehind();
  const left = new AbortController();
  const body = JSON.stringify(asking(LONG));
  const answer = fetch(`${behind.proxy.dataUrl}/inference/v1/generate`, { method: "POST", body, signal: left.signal });
  const asked = (): string[] =>
    behind.sglang.calls.flatMap(({ body: { rid } }) => (typeof rid === "string" ? [rid] : []));
  await expect.poll(() => asked().length).toBe(1);
  left.abort();
  await expect(answer).rejects.toThrow();
  await expect.poll(() => asked().length).toBe(2);
  expect(behind.sglang.calls.at(-1)).toEqual({ route: "POST /abort_request", body: { rid: asked()[0] } });
});

it("gives every request a seed, since SGLang's own is the same for all", async () => {
  await using behind = await startBehind();
  for (const seed of [undefined, undefined, 7]) await call(behind.proxy.dataUrl, GENERATE, asking({ seed }));
  const seeds = behind.sglang.calls
    .filter(({ body }) => "rid" in body)
    .map(({ body }) => (body["sampling_params"] as { sampling_seed?: number }).sampling_seed);
  expect(new Set(seeds).size).toBe(3);
  expect(seeds[2]).toBe(7);
});

it("says 503 while nobody answers, and finds out what it is when somebody does", async () => {
  const place = createServer();
  await new Promise<void>((done) => place.listen(0, "127.0.0.1", done));
  const { port } = place.address() as { port: number };
  await new Promise((done) => place.close(done));
  await using proxy = await proxyOf({ url: `http://127.0.0.1:${port}` }, { engineKind: "sglang" });
  expect((await call(proxy.dataUrl, "GET /health")).status).toBe(503);
});
