// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ConfigError, loadConfig, parseOrThrow, POOL_SETTINGS } from "./index.ts";

const Schema = z.strictObject({
  natsUrl: z.string().default("nats://127.0.0.1:4222"),
  port: z.number().int().min(1).max(65_535).default(50_051),
  verbose: z.boolean().default(false),
  pools: z.array(z.string()).default([]),
  weights: z.array(z.number()).optional(),
  loop: z
    .strictObject({ batchGroups: z.number().int().min(1).default(32), mode: z.enum(["sync", "async"]).optional() })
    .prefault({}),
});

function violations(load: () => unknown): string[] {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).violations.map(({ path, reason }) => `${path}: ${reason}`);
  }
  return [];
}

describe("loadConfig", () => {
  it("layers environment < overrides and keeps defaults", () => {
    const config = loadConfig(Schema, {
      env: {
        WHETSTONE_PORT: "1000",
        WHETSTONE_NATS_URL: "nats://env:1",
        WHETSTONE_LOOP__BATCH_GROUPS: "8",
        HOME: "/root",
      },
      overrides: { port: 3000, "loop.mode": "async", verbose: undefined },
    });
    expect(config).toEqual({
      natsUrl: "nats://env:1",
      port: 3000,
      verbose: false,
      pools: [],
      loop: { batchGroups: 8, mode: "async" },
    });
  });

  it("converts text by the schema's type", () => {
    const env = {
      WHETSTONE_PORT: "80",
      WHETSTONE_VERBOSE: "true",
      WHETSTONE_POOLS: "a, b",
      WHETSTONE_WEIGHTS: "[1,2]",
    };
    expect(loadConfig(Schema, { env })).toMatchObject({ port: 80, verbose: true, pools: ["a", "b"], weights: [1, 2] });
    expect(loadConfig(Schema, { env: { WHETSTONE_WEIGHTS: "1.5,2", WHETSTONE_VERBOSE: "0" } })).toMatchObject({
      weights: [1.5, 2],
      verbose: false,
    });
  });

  it("lists every violation with its path (I11)", () => {
    const env = {
      WHETSTONE_PORT: "many",
      WHETSTONE_COLOUR: "red",
      WHETSTONE_LOOP__BATCH_GROUPS: "0",
      WHETSTONE_LOOP__SIZE: "1",
    };
    const found = violations(() => loadConfig(Schema, { env }));
    expect(found).toHaveLength(4);
    expect(found.find((v) => v.startsWith("port: "))).toMatch(/expected number/);
    expect(found).toContain("colour: unknown setting");
    expect(found).toContain("loop.size: unknown setting");
    expect(found.find((v) => v.startsWith("loop.batchGroups: "))).toMatch(/>=1/);
  });

  it("refuses unknown keys even where the schema forgot to be strict", () => {
    expect(violations(() => loadConfig(z.object({ a: z.string().optional() }), { env: { WHETSTONE_B: "1" } }))).toEqual(
      ["b: unknown setting"],
    );
  });

  it("overlooks what Kubernetes writes for Services, but not a setting that looks like it", () => {
    const env = {
      WHETSTONE_CONTROLLER_SERVICE_HOST: "10.0.0.1",
      WHETSTONE_CONTROLLER_SERVICE_PORT_GRPC: "50051",
      WHETSTONE_CONTROLLER_PORT: "tcp://10.0.0.1:50051",
      WHETSTONE_CONTROLLER_PORT_50051_TCP_ADDR: "10.0.0.1",
      WHETSTONE_PORT: "8080",
    };
    expect(loadConfig(Schema, { env }).port).toBe(8080);
  });

  it("lets a caller name variables that are not its own", () => {
    const env = { WHETSTONE_NATS_SERVER: "/usr/bin/nats-server" };
    expect(loadConfig(Schema, { env, ignoreEnv: ["WHETSTONE_NATS_SERVER"] }).port).toBe(50_051);
  });
});

it("parseOrThrow prefixes paths and writes indices", () => {
  const schema = z.strictObject({ items: z.array(z.strictObject({ n: z.number() })) });
  const found = violations(() => parseOrThrow(schema, { items: [{ n: 1 }, { n: "x", m: 1 }] }, "spec"));
  expect(found.map((v) => v.split(":")[0]).sort()).toEqual(["spec.items[1].m", "spec.items[1].n"]);
});

describe("POOL_SETTINGS", () => {
  const read = (text: string) =>
    loadConfig(z.strictObject(POOL_SETTINGS), { env: { WHETSTONE_ENV_POOLS: text } }).envPools;

  it("are addresses by pool; none is none", () => {
    expect([...read("python=127.0.0.1:9083, swe=runner.example:1")]).toEqual([
      ["python", "127.0.0.1:9083"],
      ["swe", "runner.example:1"],
    ]);
    expect([...read("")]).toEqual([]);
  });

  it("name what is no address", () => {
    expect(violations(() => read("python=here"))).toEqual(['envPools[0]: must be "<pool>=<host>:<port>"']);
  });
});
