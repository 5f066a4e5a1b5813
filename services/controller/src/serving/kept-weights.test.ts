// SPDX-License-Identifier: Apache-2.0
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { CheckpointSchema, type Job, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { type ServedSource, ServedSourceSchema } from "@whetstone/proto/serving/v1/serving";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptWeights } from "./kept-weights.ts";

let root: string;
let job: Job;
let weights: KeptWeights;
const checkpoints = (): Promise<ReturnType<typeof checkpoint>[]> => Promise.resolve([checkpoint(4n), checkpoint(2n)]);
const checkpoint = (policyVersion: bigint) =>
  create(CheckpointSchema, { policyVersion, modelPath: folder(String(policyVersion)) });

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "whetstone-kept-weights-"));
  for (const name of ["2", "4", "pushed"]) model(name);
  job = create(JobSchema, { spec: { name: "fl" }, status: { policyVersion: 4n, modelPath: folder("4") } });
  weights = new KeptWeights({
    dataPath: join(root, "data"),
    getJob: () => Promise.resolve(job),
    checkpoints,
    artifactFolder: () => Promise.resolve(folder("pushed")),
  });
});
afterEach(() => rmSync(root, { recursive: true }));

const folder = (name: string): string => join(root, name);
function model(name: string): void {
  mkdirSync(join(folder(name), "deeper"), { recursive: true });
  writeFileSync(join(folder(name), "config.json"), name);
  writeFileSync(join(folder(name), "deeper", "part"), name);
}
const ofJob = (policyVersion?: bigint): ServedSource =>
  create(ServedSourceSchema, {
    kind: { case: "job", value: policyVersion === undefined ? { name: "fl" } : { name: "fl", policyVersion } },
  });
const ofPath = (value: string): ServedSource => create(ServedSourceSchema, { kind: { case: "path", value } });

describe("kept weights", () => {
  it("outlive the folder that they come from", async () => {
    const taken = await weights.take("bot", ofJob());
    rmSync(folder("4"), { recursive: true });
    expect(readFileSync(join(taken.path, "config.json"), "utf8")).toBe("4");
    expect(readFileSync(join(taken.path, "deeper", "part"), "utf8")).toBe("4");
    expect(taken.source).toMatchObject({ kind: { value: { name: "fl", policyVersion: 4n } } });
    await weights.dropAll("bot");
    expect(existsSync(taken.path)).toBe(false);
  });

  it("are those of a job's earlier versions, and of pushed models", async () => {
    const second = await weights.take("bot", ofJob(2n));
    expect(readFileSync(join(second.path, "config.json"), "utf8")).toBe("2");
    const pushed = await weights.take("bot", ofPath("artifact://models/mine"));
    expect(readFileSync(join(pushed.path, "config.json"), "utf8")).toBe("pushed");
    await weights.drop(pushed.path);
    expect(readdirSync(join(root, "data", "served", "bot"))).toHaveLength(1);
  });

  it("are files where a cache has links to them", async () => {
    mkdirSync(folder("cache"));
    symlinkSync(join(folder("2"), "config.json"), join(folder("cache"), "config.json"));
    const taken = await weights.take("bot", ofPath(folder("cache")));
    rmSync(folder("2"), { recursive: true });
    expect(readFileSync(join(taken.path, "config.json"), "utf8")).toBe("2");
  });

  it("are refused where there are none, with what there is", async () => {
    await expect(weights.take("bot", ofJob(3n))).rejects.toThrow(/keeps no version 3; it has 4, 2/);
    await expect(weights.take("bot", ofPath(folder("nowhere")))).rejects.toThrow(/has no config.json/);
    job = create(JobSchema, { spec: { name: "fl" }, status: { modelPath: "" } });
    await expect(weights.take("bot", ofJob())).rejects.toThrow(/no trained weights yet/);
    job = create(JobSchema, { status: { modelPath: "s3://bucket/run/v1" } });
    await expect(weights.take("bot", ofJob())).rejects.toThrow(/in an object store only/);
    expect(existsSync(join(root, "data"))).toBe(false);
  });
});
