// SPDX-License-Identifier: Apache-2.0
import { create, fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { validateJob } from "../../services/controller/src/jobs/validation/validate-job.ts";
import { ROOT } from "../pack/workspaces.ts";
import type { Schema } from "./schema.ts";

const definition = parse(readFileSync(join(ROOT, "charts/whetstone-crds/generated/trainingjobs.yaml"), "utf8")) as {
  versions: [{ schema: { openAPIV3Schema: { properties: { spec: { properties: { job: Schema } } } } } }];
};
const schema = definition.versions[0].schema.openAPIV3Schema.properties.spec.properties.job;

/** A job with every message that has bounds in it. */
const job = (): JsonObject => ({
  name: "bounds",
  model: { path: "/models/a" },
  agent: { kind: "frozenlake" },
  environment: { kind: "frozenlake" },
  module: { digest: "a".repeat(64) },
  train: { seeds: { first: 1, count: 2 }, repeat: 1 },
  validation: {
    dataset: { seeds: { count: 1 } },
    concurrency: 1,
    everySteps: 1,
    variants: [{ name: "greedy", attempts: 1, sampling: { temperature: 1, topP: 1, topK: 1, maxTokens: 1 } }],
  },
  algorithm: {
    policyGradient: {
      groupSize: 1024,
      clipLow: 0.2,
      clipHigh: 0.2,
      clipDual: 3,
      entropyCoefficient: 0,
      lossAggregation: "LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM_NORM",
      lossScaleFactor: 1,
      correction: { cap: 1e9, floor: 1, reject: [{ statistic: "REJECTION_STATISTIC_TOKEN_K1", low: 1, high: 1e9 }] },
      kl: { coefficient: 1, appliedTo: "KL_PLACE_REWARD", target: 1, horizon: 1 },
      optimizer: {
        learningRate: 1,
        beta1: 0,
        beta2: 0,
        weightDecay: 0,
        gradientClip: 1,
        warmupSteps: 1,
        finalRateShare: 1,
      },
      batching: { miniBatches: 1, epochs: 1, microBatchTokens: 16 },
    },
  },
  loop: { steps: 1, batchGroups: 1, maxPolicyLag: 0, checkpointEvery: 1, checkpointsKept: 1 },
  sampling: { temperature: 1, topP: 1, maxTokens: 1 },
  limits: { maxSteps: 1, maxPromptTokens: 1, maxResponseTokens: 1, retryLimit: 1, gamma: 1 },
  roles: [{ name: "judge", model: { baseUrl: "http://a", model: "m", apiKeyEnv: "A_API_KEY" } }],
  weight: 1,
});

type Path = readonly (string | number)[];

interface Leaf {
  readonly path: Path;
  readonly schema: Schema;
}

/** Every part of the job above that the schema bounds by a range. */
function* ranged(at: Schema, value: JsonValue | undefined, path: Path = []): Generator<Leaf> {
  if (at.minimum !== undefined || at.maximum !== undefined) yield { path, schema: at };
  if (Array.isArray(value) && at.items) yield* ranged(at.items, value[0], [...path, 0]);
  const inner = (value ?? {}) as JsonObject;
  for (const [name, property] of Object.entries(at.properties ?? {}))
    if (inner[name] !== undefined) yield* ranged(property, inner[name], [...path, name]);
}

function violationsWith(path: Path, value: number): string[] {
  const spec = job();
  let at = spec as Record<string | number, unknown>;
  for (const part of path.slice(0, -1)) at = at[part] as typeof at;
  at[path.at(-1) as string] = value;
  return validateJob(fromJson(JobSpecSchema, spec)).map((violation) => violation.path);
}

const asPath = (path: Path): string => path.join(".").replaceAll(/\.(\d+)(?=\.|$)/g, "[$1]");
const UINT32 = 2 ** 32 - 1;
/** The type's own ends are no bounds; and 0 steps or groups are another kind of job, not a bound. */
const isOwnBound = (leaf: Leaf, edge: "minimum" | "maximum"): boolean => {
  const value = leaf.schema[edge];
  if (value === undefined || leaf.schema["x-kubernetes-int-or-string"]) return false;
  return leaf.schema.type === "integer" ? value !== (edge === "minimum" ? 0 : UINT32) : true;
};
const leaves = [...ranged(schema, job())].map((leaf) => [asPath(leaf.path), leaf] as const);

describe("the schema's ranges are those of the controller's own validation", () => {
  it("the example is valid, and most of the tables is looked at", () => {
    expect(validateJob(fromJson(JobSpecSchema, job()))).toEqual([]);
    expect(leaves.length).toBeGreaterThan(30);
    expect(create(JobSpecSchema).name).toBe("");
  });

  it.each(leaves.filter(([, leaf]) => isOwnBound(leaf, "maximum")))("%s: above", (path, leaf) => {
    const { maximum = 0, type } = leaf.schema;
    expect(violationsWith(leaf.path, maximum + (type === "integer" ? 1 : 1e-7))).toContain(path);
  });

  it.each(leaves.filter(([, leaf]) => isOwnBound(leaf, "minimum")))("%s: below", (path, leaf) => {
    const { minimum = 0, exclusiveMinimum, type } = leaf.schema;
    const below = exclusiveMinimum ? minimum : minimum - (type === "integer" ? 1 : 1e-7);
    expect(violationsWith(leaf.path, below)).toContain(path);
  });

  it.each(leaves.filter(([, leaf]) => isOwnBound(leaf, "maximum")))("%s: the bound itself is taken", (path, leaf) => {
    expect(violationsWith(leaf.path, leaf.schema.maximum ?? 0)).not.toContain(path);
  });
});
