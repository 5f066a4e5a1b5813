// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProxy } from "./app.ts";
import { ProxyConfigSchema } from "./config.ts";

const folder = mkdtempSync(join(tmpdir(), "whetstone-card-"));
let models: unknown;
let engine: Server;

beforeAll(async () => {
  engine = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(models));
  });
  await new Promise<void>((resolve) => engine.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  engine.close();
  engine.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

async function askedThroughTheProxy(): Promise<unknown> {
  const engineUrl = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`;
  const config = ProxyConfigSchema.parse({ engineUrl, dataPort: 0, controlPort: 0 });
  await using proxy = await startProxy(config, { logger: silentLogger });
  return await (await fetch(`${proxy.dataUrl}/v1/models`)).json();
}

function modelFolder(name: string, config: object): string {
  const path = join(folder, name);
  mkdirSync(path);
  writeFileSync(join(path, "config.json"), JSON.stringify(config));
  return path;
}

describe("what a model takes", () => {
  it("is told beside what the engine says, by the config of its folder, and what the engine can", async () => {
    const [sees, reads] = [modelFolder("sees", { vision_config: {} }), modelFolder("reads", { model_type: "llama" })];
    models = {
      object: "list",
      data: [
        { id: "a", root: sees, max_model_len: 9 },
        { id: "b", root: reads, names_support: ["top_k"], object_store: "s3://its/own" },
        { id: "c" },
      ],
    };
    // vLLM says nothing of it: it does not name what truncated sampling draws from.
    const can = { modalities: ["text"], names_support: [], object_store: "" };
    expect(await askedThroughTheProxy()).toEqual({
      object: "list",
      data: [
        { ...can, id: "a", root: sees, max_model_len: 9, modalities: ["text", "image"] },
        { ...can, id: "b", root: reads, names_support: ["top_k"] },
        { ...can, id: "c" },
      ],
    });
  });

  it("is not told where the engine says something else", async () => {
    models = { error: "not ready" };
    expect(await askedThroughTheProxy()).toEqual(models);
  });
});
