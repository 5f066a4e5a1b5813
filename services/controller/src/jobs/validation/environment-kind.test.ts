// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { ModuleCode } from "@whetstone/modules/code";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { notOfThePool, whoServes } from "./environment-kind.ts";

const specOf = (kind: string, pool?: string) => create(JobSpecSchema, { environment: { kind, ...(pool && { pool }) } });

describe("a job whose pool names its kinds", () => {
  it("is refused where its kind is none of them, though an env-runner may have it", () => {
    const violations = notOfThePool({ spec: specOf("math", "repairs"), module: undefined }, ["code", "swe"]);
    expect(violations).toEqual([
      { path: "environment.kind", reason: 'pool "repairs" serves code, swe, not "math"', curable: true },
    ]);
  });

  it("is not where it is, where the pool says nothing, and where its own code may bring the kind", () => {
    const spec = specOf("code");
    expect(notOfThePool({ spec, module: undefined }, ["code"])).toBeUndefined();
    expect(notOfThePool({ spec, module: undefined }, undefined)).toBeUndefined();
    expect(notOfThePool({ spec, module: {} as ModuleCode }, ["swe"])).toBeUndefined();
  });
});

describe("what is said about a kind that the pool does not serve", () => {
  it("names the pools that do", async () => {
    const said = await whoServes(specOf("guess"), async () => Promise.resolve(["python", "other"]));
    expect(said).toBe('pool "python", "other" serves it: set environment.pool to "python"');
  });

  it("names the pool to make where nobody does", async () => {
    const said = await whoServes(specOf("FrozenLake-v1"), async () => Promise.resolve([]));
    expect(said).toContain('EnvironmentPool such as "frozenlake-v1" with spec.kinds ["FrozenLake-v1"]');
    expect(said).toContain("docs/environment-pools.md");
  });
});
