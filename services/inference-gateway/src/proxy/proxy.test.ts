// SPDX-License-Identifier: Apache-2.0
// The guard before vLLM, tested before the PyTorch engine, which speaks the same protocol.
import { createHash } from "node:crypto";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, chat, initModel, startGateway, tempFolder, user } from "../../test/harness.ts";
import type { TempFolder } from "../../test/harness.ts";
import { startRealEngine } from "../../test/real-engine.ts";
import { type EngineProxy, startProxy } from "./app.ts";
import { type ProxyConfig, ProxyConfigSchema } from "./config.ts";

let folder: TempFolder;
let model: string;
let proxy: EngineProxy;
let engineUrl: string;
const stack = new AsyncDisposableStack();

beforeAll(async () => {
  folder = stack.use(tempFolder());
  model = initModel(folder);
  const engine = stack.use(await startRealEngine(model, "job:1"));
  engineUrl = engine.url;
  proxy = stack.use(await start(engineUrl));
}, 120_000);
afterAll(() => stack.disposeAsync());

function start(at: string, more: Partial<ProxyConfig> = {}): Promise<EngineProxy> {
  const config = ProxyConfigSchema.parse({ engineUrl: at, dataPort: 0, controlPort: 0, ...more });
  return startProxy(config, { logger: silentLogger });
}

/** Ranges of a folder's files, as the trainer serves them. */
async function serveFolder(folder: string): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    const bytes = readFileSync(join(folder, request.url ?? ""));
    const [begin = 0, last = 0] =
      /(\d+)-(\d+)/
        .exec(request.headers.range ?? "")
        ?.slice(1)
        .map(Number) ?? [];
    response.writeHead(206, { "content-range": `bytes ${begin}-${last}/${bytes.length}` });
    response.end(bytes.subarray(begin, last + 1));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const close = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((done) => server.close(() => done()));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, [Symbol.asyncDispose]: close };
}

/** A copy of the model without its manifest, with other tensors in the header or other fields in config.json. */
function damaged(change: (tensors: Record<string, object>) => object, fields: object = {}): TempFolder {
  const copy = tempFolder();
  cpSync(model, copy.path, { recursive: true, filter: (source) => !source.endsWith("manifest.json") });
  const [weights, config] = ["model.safetensors", "config.json"].map((name) => join(copy.path, name)) as [
    string,
    string,
  ];
  const bytes = readFileSync(weights);
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString()) as Record<string, object>;
  // Padded with spaces to its length, so that no data moves.
  bytes.write(JSON.stringify(change(header)).padEnd(length), 8);
  writeFileSync(weights, bytes);
  writeFileSync(config, JSON.stringify({ ...(JSON.parse(readFileSync(config, "utf8")) as object), ...fields }));
  return copy;
}

interface Answer {
  readonly status: number;
  readonly body: { error?: { type: string; message?: string }; is_paused?: boolean };
}

async function call(base: string, route: string, epoch?: number, body: object = {}): Promise<Answer> {
  const [method = "", path = ""] = route.split(" ");
  const headers = {
    "content-type": "application/json",
    ...(epoch !== undefined && { "whetstone-epoch": String(epoch) }),
  };
  const sent = method === "POST" ? { body: JSON.stringify(body) } : {};
  const response = await fetch(base + path, { method, headers, ...sent });
  const text = await response.text();
  return { status: response.status, body: text.startsWith("{") ? (JSON.parse(text) as Answer["body"]) : {} };
}

const STEERING = [
  "POST /pause",
  "POST /resume",
  "GET /is_paused",
  "POST /abort_requests",
  "POST /inference/v1/abort_requests",
  "POST /reset_prefix_cache",
  "GET /weight_info",
  "POST /update_weight_version",
  "GET /get_world_size",
  "POST /collective_rpc",
  "POST /stage_weights",
  "GET /server_info",
  "POST /update_weights",
];
const NEVER = ["POST /sleep", "POST /v1/load_lora_adapter", "GET /openapi.json", "POST /scale_elastic_ep"];

describe("the data port", () => {
  it.each(STEERING)("refuses %s", async (route) => {
    expect(await call(proxy.dataUrl, route)).toMatchObject({ status: 403, body: { error: { type: "Forbidden" } } });
  });

  it.each(["GET /v1/models", "GET /health", "GET /load", "GET /metrics", "GET /version"])(
    "lets %s pass",
    async (route) => {
      expect((await call(proxy.dataUrl, route)).status).toBe(200);
    },
  );

  it("carries a gateway's calls, streamed and not, with labels", async () => {
    await using gateway = await startGateway({ healthIntervalMs: 1000 });
    const { dataUrl: url, controlUrl } = proxy;
    await gateway.fleet.registerEngine({ id: "e0", url, controlUrl });
    const policy = { policy: "job", policyVersion: 1n, label: "job:1", modelPath: model };
    await gateway.fleet.unfenceEngine({ id: "e0", policy });
    expect((await chat(gateway, "s", [user("x")], { max_tokens: 4 })).status).toBe(200);
    expect((await calls(gateway, "s")).calls[0]?.versionSpans).toMatchObject([{ policyVersion: 1n }]);
  });

  it("ends the engine's request when the caller leaves", async () => {
    const left = new AbortController();
    const body = JSON.stringify({ token_ids: [65], sampling_params: { max_tokens: 900, ignore_eos: true } });
    const request = { method: "POST", body, signal: left.signal };
    const answer = fetch(`${proxy.dataUrl}/inference/v1/generate`, request).catch(() => "left");
    const running = async () =>
      /requests_running\S* (\d+)/.exec(await (await fetch(`${proxy.dataUrl}/metrics`)).text())?.[1];
    await expect.poll(running).toBe("1");
    left.abort();
    expect(await answer).toBe("left");
    await expect.poll(running).toBe("0");
  });
});

describe("the control port", () => {
  it.each(NEVER)("knows no %s", async (route) => {
    expect((await call(proxy.controlUrl, route)).status).toBe(404);
    expect((await call(proxy.dataUrl, route)).status).toBe(404);
  });

  it("pauses, loads and resumes", async () => {
    expect((await call(proxy.controlUrl, "POST /pause")).status).toBe(200);
    expect((await call(proxy.controlUrl, "GET /is_paused")).body.is_paused).toBe(true);
    const load = { method: "reload_weights", kwargs: { weights_path: model } };
    expect((await call(proxy.controlUrl, "POST /collective_rpc", undefined, load)).status).toBe(200);
    expect((await call(proxy.controlUrl, "POST /resume")).status).toBe(200);
  });

  it("lets nobody load while it samples, nor a folder that is not whole: the engine is as before", async () => {
    using broken = damaged(({ "model.norm.weight": _gone, ...rest }) => rest);
    const load = (path: string) =>
      call(proxy.controlUrl, "POST /collective_rpc", undefined, {
        method: "reload_weights",
        kwargs: { weights_path: path },
      });
    expect(await load(model)).toMatchObject({ status: 400, body: { error: { type: "BadRequestError" } } });
    await call(proxy.controlUrl, "POST /pause");
    expect(await load(broken.path)).toMatchObject({ status: 500, body: { error: { type: "InternalServerError" } } });
    expect((await call(proxy.controlUrl, "POST /resume")).status).toBe(200);
  });

  it("reads a folder while it samples, and what is changed after that is not loaded", async () => {
    using copy = tempFolder();
    cpSync(model, copy.path, { recursive: true });
    const stage = (body: object) => call(proxy.controlUrl, "POST /stage_weights", undefined, body);
    const load = () =>
      call(proxy.controlUrl, "POST /collective_rpc", undefined, {
        method: "reload_weights",
        kwargs: { weights_path: copy.path },
      });
    expect((await stage({ weights_path: copy.path })).status).toBe(200);
    await call(proxy.controlUrl, "POST /pause");
    expect((await load()).status).toBe(200);
    const shard = join(copy.path, "model.safetensors");
    const bytes = readFileSync(shard);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    writeFileSync(shard, bytes);
    expect(await load()).toMatchObject({ status: 500, body: { error: { type: "InternalServerError" } } });
    expect(await stage({ weights_path: copy.path })).toMatchObject({
      status: 500,
      body: { error: { message: "stage_weights: model.safetensors differs from the digest in manifest.json" } },
    });
    expect((await call(proxy.controlUrl, "POST /resume")).status).toBe(200);
  });

  it("fetches nothing without a folder for it, and says what a bad call lacks", async () => {
    const stage = (body: object) => call(proxy.controlUrl, "POST /stage_weights", undefined, body);
    const stream = { url: "http://127.0.0.1:9/v1", manifest_digest: "0".repeat(64) };
    expect(await stage({ weights_path: "v1", stream })).toMatchObject({
      status: 404,
      body: { error: { message: expect.stringContaining("WHETSTONE_WEIGHTS_DIR") as string } },
    });
    expect(await stage({ weights_path: "v1", stream: { ...stream, manifest_digest: "x" } })).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/^stream\.manifest_digest: /) as string } },
    });
  });

  it("loads what it fetched, under the name of a folder that the engine does not see", async () => {
    using kept = tempFolder();
    await using served = await serveFolder(model);
    await using fetching = await start(engineUrl, { weightsDir: kept.path });
    const manifest_digest = createHash("sha256")
      .update(readFileSync(join(model, "manifest.json")))
      .digest("hex");
    const named = "/nowhere/weights/v1";
    const body = { weights_path: named, stream: { url: served.url, manifest_digest } };
    expect((await call(fetching.controlUrl, "POST /stage_weights", undefined, body)).status).toBe(200);
    await call(fetching.controlUrl, "POST /pause");
    const load = { method: "reload_weights", kwargs: { weights_path: named } };
    expect((await call(fetching.controlUrl, "POST /collective_rpc", undefined, load)).status).toBe(200);
    expect((await call(fetching.controlUrl, "POST /resume")).status).toBe(200);
  });

  it("does not resume an engine whose load has failed, until one succeeds", async () => {
    // Fits by its weights; that the configuration is another one, only the engine sees.
    using other = damaged((tensors) => tensors, { vocab_size: 300 });
    const load = (path: string) =>
      call(proxy.controlUrl, "POST /collective_rpc", undefined, {
        method: "reload_weights",
        kwargs: { weights_path: path },
      });
    await call(proxy.controlUrl, "POST /pause");
    expect((await load(other.path)).status).toBe(500);
    expect(await call(proxy.controlUrl, "POST /resume")).toMatchObject({
      status: 409,
      body: { error: { type: "WeightsNotLoaded" } },
    });
    expect((await load(model)).status).toBe(200);
    expect((await call(proxy.controlUrl, "POST /resume")).status).toBe(200);
  });

  it("runs no other method of the engine's workers", async () => {
    for (const body of [{ method: "shutdown" }, {}, { method: ["reload_weights"] }])
      expect((await call(proxy.controlUrl, "POST /collective_rpc", undefined, body)).status).toBe(403);
  });

  it("obeys the newest controller only; reading is free", async () => {
    expect((await call(proxy.controlUrl, "POST /resume", 7)).status).toBe(200);
    for (const epoch of [6, undefined])
      expect(await call(proxy.controlUrl, "POST /pause", epoch)).toMatchObject({
        status: 409,
        body: { error: { type: "StaleEpoch" } },
      });
    expect((await call(proxy.controlUrl, "GET /is_paused")).body.is_paused).toBe(false);
    expect((await call(proxy.controlUrl, "POST /resume", 8)).status).toBe(200);
  });
});

it("says 503 while the engine is not there", async () => {
  await using lonely = await start("http://127.0.0.1:9");
  expect((await call(lonely.dataUrl, "GET /health")).status).toBe(503);
  // It is starting: that says nothing of the weights.
  expect((await call(lonely.controlUrl, "POST /stage_weights", undefined, { weights_path: model })).status).toBe(503);
});
