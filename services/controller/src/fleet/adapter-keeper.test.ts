// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { sleep } from "@whetstone/core";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { silentLogger as logger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { AdapterKeeper, type AdapterPolicy } from "./adapter-keeper.ts";

/** What an engine of ours knows of adapters. */
class AdapterEngine {
  readonly loaded = new Map<string, string>();
  readonly calls: string[] = [];
  refuses = false;
  readonly server: Server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const [status, answer] = this.#answer(request.url ?? "", text === "" ? {} : (JSON.parse(text) as Body));
      response.writeHead(status).end(JSON.stringify(answer));
    });
  });

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  #answer(path: string, body: Body): [number, object] {
    const { lora_name: name = "", lora_path: folder = "", model = "" } = body;
    if (path === "/v1/models") {
      const cards = [...this.loaded].map(([id, root]) => ({ id, root, parent: "policy" }));
      return [200, { data: [{ id: "policy", root: "/base", parent: null }, ...cards] }];
    }
    if (path === "/inference/v1/generate") return [200, answeredBy(model)];
    this.calls.push(`${path.replace(/.*\/|_lora_adapter/g, "")} ${name}`);
    if (path.includes("unload")) this.loaded.delete(name);
    else if (this.refuses) return [500, { error: { message: "q_proj: has A and B of another shape" } }];
    else this.loaded.set(name, folder);
    return [200, {}];
  }
}

interface Body {
  readonly lora_name?: string;
  readonly lora_path?: string;
  readonly model?: string;
}

function answeredBy(label: string): object {
  const logprobs = { content: [{ logprob: -1 }] };
  return { choices: [{ token_ids: [7], logprobs, weight_versions: [{ version: label, start: 0, end: 1 }] }] };
}

let engine: AdapterEngine;
/** What the gateway was told last, and how it shows it. */
let told: string[];
let forgotten: string[];
let inFlight: number;
let state: EngineState;
let keeper: AdapterKeeper;

beforeEach(async () => {
  engine = new AdapterEngine();
  [told, forgotten, inFlight, state] = [[], [], 0, EngineState.SERVING];
  await new Promise<void>((resolve) => engine.server.listen(0, "127.0.0.1", resolve));
  const policy = { policy: "serve.base", label: "serve.base:1", modelPath: "/base" };
  keeper = new AdapterKeeper({
    ...{ logger, finishMs: 300 },
    gateways: {
      listEngines: () => {
        const adapters = told.map((label) => ({ inFlight, policy: { label, policy: label.replace(/:.*/, "") } }));
        const one = { id: "e", url: engine.url, controlUrl: "", state, policy, adapters };
        return Promise.resolve({ engines: [one], waitingCalls: {} } as never);
      },
      putAdapters: ({ baseLabel, adapters = [] }) => {
        expect(baseLabel).toBe("serve.base:1");
        told = adapters.map(({ label = "" }) => label);
        return Promise.resolve({} as never);
      },
      forgetPolicy: ({ policy: name = "" }) => Promise.resolve(forgotten.push(name) as never),
    },
  });
});
afterEach(async () => {
  await keeper.end();
  await new Promise((resolve) => engine.server.close(resolve));
});

const signal = new AbortController().signal;
const lab = (version: bigint, path = `/lab/${version}`): AdapterPolicy => ({
  ...{ policy: "serve.lab", version, path, base: "serve.base" },
});
const until = (wanted: AdapterPolicy[], isSo: () => boolean) =>
  waitFor(async () => {
    await keeper.pass(wanted, signal);
    return isSo();
  });

it("brings adapters to an engine, again when it was started again, and to no other", async () => {
  await until([lab(1n), { ...lab(1n), policy: "serve.else", base: "serve.other" }], () => told.length > 0);
  expect(told).toEqual(["serve.lab:1"]);
  engine.loaded.clear();
  await until([lab(1n)], () => engine.calls.length === 2);
  expect(engine.calls).toEqual(["load serve.lab:1", "load serve.lab:1"]);
});

it("gives calls the new version at once, and unloads the old one when nothing can be on its way to it", async () => {
  await until([lab(1n)], () => told.length > 0);
  await until([lab(2n)], () => told[0] === "serve.lab:2");
  expect([...engine.loaded.keys()]).toEqual(["serve.lab:1", "serve.lab:2"]);
  await until([lab(2n)], () => engine.loaded.size === 1);
  expect(engine.calls).toEqual(["load serve.lab:1", "load serve.lab:2", "unload serve.lab:1"]);
});

it("loads a name anew that another folder was loaded under", async () => {
  await until([lab(1n)], () => told.length > 0);
  await until([lab(1n, "/lab/of-another")], () => engine.loaded.get("serve.lab:1") === "/lab/of-another");
  expect(engine.calls).toEqual(["load serve.lab:1", "unload serve.lab:1", "load serve.lab:1"]);
});

it("leaves what calls run by for a while, then forgets the policy", async () => {
  await until([lab(1n)], () => told.length > 0);
  inFlight = 1;
  await keeper.pass([], signal);
  await until([], () => engine.calls.length > 1);
  expect(engine.calls.at(-1)).toBe("unload serve.lab:1");
  await until([], () => forgotten.length > 0);
  expect([told, forgotten]).toEqual([[], ["serve.lab"]]);
});

it("says why an engine does not take one, goes on with the others, and tries again", async () => {
  await until([lab(1n)], () => told.length > 0);
  engine.refuses = true;
  await until([lab(1n), { ...lab(1n), policy: "serve.bad" }], () => keeper.failureOf("serve.bad") !== undefined);
  expect(keeper.failureOf("serve.bad")).toContain("another shape");
  expect(told).toEqual(["serve.lab:1"]);
  engine.refuses = false;
  await until([lab(1n), { ...lab(1n), policy: "serve.bad" }], () => told.length === 2);
  expect(keeper.failureOf("serve.bad")).toBeUndefined();
});

it("leaves an engine alone for longer and longer that does not take one", async () => {
  engine.refuses = true;
  for (let passes = 0; passes < 30; passes += 1) {
    await keeper.pass([lab(1n)], signal);
    await sleep(10);
  }
  expect(keeper.failureOf("serve.lab")).toContain("another shape");
  expect(engine.calls.length).toBeLessThan(5);
  await until([lab(2n)], () => engine.calls.includes("load serve.lab:2"));
});

it("lets an engine be that is given other weights", async () => {
  state = EngineState.FENCED;
  await keeper.pass([lab(1n)], signal);
  await keeper.end();
  expect(engine.calls).toEqual([]);
});
