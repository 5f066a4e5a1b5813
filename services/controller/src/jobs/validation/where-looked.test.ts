// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { SandboxBackend } from "@whetstone/proto/types/v1/types";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { afterAll, expect, it } from "vitest";
import { Artifacts } from "../../artifacts/artifacts.ts";
import { checkWorld, type WorldDeps } from "./external-checks.ts";

const dataPath = mkdtempSync(join(tmpdir(), "whetstone-where-"));
mkdirSync(join(dataPath, "models/policy"), { recursive: true });
afterAll(() => rmSync(dataPath, { recursive: true }));

// Both lie on the machine of whoever submits. Agent and environment are not reached: the job has none.
const spec = create(JobSpecSchema, {
  model: { path: "/laptop/models/format" },
  train: { source: { case: "jsonl", value: "/laptop/train.jsonl" } },
  algorithm: { kind: { case: "sft", value: {} } },
});
const refusals = async (kube: boolean): Promise<string[]> => {
  const artifacts = new Artifacts(dataPath, () => Promise.resolve(new Map()));
  const deps = { config: { kube, dataPath }, artifacts } as unknown as WorldDeps;
  return (await checkWorld(spec, undefined, deps)).map(({ path, reason }) => `${path}: ${reason}`);
};

it("says of a folder or file of the user's machine that it was looked for in the cluster, and what to do", async () => {
  const said = await refusals(true);
  expect(said).toHaveLength(2);
  expect(said[0]).toMatch(/^model\.path: folder \/laptop\/models\/format does not exist or cannot be read: it was/);
  expect(said[1]).toMatch(/^train\.jsonl: file \/laptop\/train\.jsonl does not exist or cannot be read: it was/);
  for (const one of said) {
    expect(one).toContain(
      `looked for in the cluster, on the volume at ${dataPath}, and not on the machine that submits`,
    );
    expect(one).toContain("Push it (`whet models push`");
    expect(one).toContain(`such as ${dataPath}/models/policy`);
  }
});

it("says no more than that on one machine, where there is only one place to look", async () => {
  for (const one of await refusals(false)) expect(one).toMatch(/does not exist or cannot be read$/);
});

it("looks at a module in what the job wants it kept in", async () => {
  const module = { digest: "a".repeat(64), sandbox: { backend: SandboxBackend.NONE } };
  const own = create(JobSpecSchema, {
    agent: { kind: "mine" },
    module,
    train: { source: { case: "seeds", value: { first: 1n, count: 1n } } },
    algorithm: { kind: { case: "policyGradient", value: {} } },
    loop: { steps: 1 },
  });
  const seen: unknown[] = [];
  const rollouts = {
    describeAgents: (request: { module?: { sandbox?: { backend: SandboxBackend } } }) => {
      seen.push(request.module?.sandbox?.backend);
      return Promise.resolve({ kinds: [] });
    },
  };
  const artifacts = new Artifacts(dataPath, () => Promise.resolve(new Map()));
  const deps = { artifacts, rollouts, environmentsLast: true } as unknown as WorldDeps;
  await checkWorld(own, { digest: module.digest, code: new Uint8Array() }, deps);
  expect(seen[0]).toBe(SandboxBackend.NONE);
});
