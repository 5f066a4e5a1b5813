// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobSchema, type JobSpec, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Artifacts } from "./artifacts.ts";
import { jobsByDigest, pinArtifacts, unpinned, withArtifactPaths } from "./job-artifacts.ts";
import { writeJson } from "./layout.ts";

const [MODEL, SUMS] = ["aa".repeat(32), "bb".repeat(32)];
let data: string;
let artifacts: Artifacts;

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), "whetstone-pins-"));
  artifacts = new Artifacts(data, () => Promise.resolve(new Map()));
  await keep("models", "tiny", MODEL, "config.json");
  await keep("datasets", "sums", SUMS, "train.jsonl");
});
afterEach(() => rmSync(data, { recursive: true, force: true }));

async function keep(kind: "models" | "datasets", name: string, digest: string, ...paths: string[]): Promise<void> {
  const files = paths.map((path) => ({ path, size: 1, sha256: digest }));
  await writeJson(join(artifacts.layout.content(digest), "manifest.json"), { files });
  await artifacts.setName(kind, name, digest, true);
}

const specOf = (json: JsonObject): JobSpec => fromJson(JobSpecSchema, { name: "j", ...json });
const spec = specOf({
  model: { path: "artifact://models/tiny" },
  train: { jsonl: "artifact://datasets/sums" },
  validation: { dataset: { jsonl: "artifact://datasets/sums/train.jsonl" } },
  environment: { kind: "tool", args: { corpus: ["artifact://datasets/sums/train.jsonl"] } },
  algorithm: { dpo: { reference: `artifact://models/tiny@sha256:${MODEL}` } },
});

describe("a job's artifacts", () => {
  it("get their digests, which a name that moves on does not change", async () => {
    const { spec: pinned, violations } = await pinArtifacts(spec, artifacts);
    expect(violations).toEqual([]);
    expect(pinned.model?.path).toBe(`artifact://models/tiny@sha256:${MODEL}`);
    expect(pinned.train?.source.value).toBe(`artifact://datasets/sums@sha256:${SUMS}/train.jsonl`);
    expect(pinned.environment?.args).toMatchObject({ corpus: [`artifact://datasets/sums@sha256:${SUMS}/train.jsonl`] });
    await keep("models", "tiny", "cc".repeat(32), "config.json");
    // The former files went with the name here, where no job has them: put them back as a job would keep them.
    await writeJson(join(artifacts.layout.content(MODEL), "manifest.json"), { files: [] });
    expect((await pinArtifacts(pinned, artifacts)).spec).toEqual(pinned);
  });

  it("become folders for trainer and engines, and stay references in arguments", async () => {
    const { spec: pinned } = await pinArtifacts(spec, artifacts);
    const resolved = withArtifactPaths(pinned, artifacts.layout);
    const model = join(data, "artifacts/sha256", MODEL, "files");
    expect(resolved.model?.path).toBe(model);
    expect(resolved.algorithm?.kind.value).toMatchObject({ reference: model });
    expect(resolved.train?.source.value).toBe(join(data, "artifacts/sha256", SUMS, "files/train.jsonl"));
    expect(resolved.environment?.args).toEqual(pinned.environment?.args);
  });

  it("that are not there are named by their field, each with what there is", async () => {
    await keep("datasets", "splits", "dd".repeat(32), "a.jsonl", "b.jsonl");
    const wrong = specOf({
      model: { path: "artifact://models/none" },
      train: { jsonl: "artifact://datasets/splits" },
      validation: { dataset: { jsonl: "artifact://datasets/sums/test.jsonl" } },
      environment: { kind: "tool", args: { corpus: "artifact://nothing/x" } },
      agent: { kind: "tool", args: { notes: "artifact://datasets/sums" } },
    });
    const { violations } = await pinArtifacts(wrong, artifacts);
    expect(Object.fromEntries(violations.map(({ path, reason }) => [path, reason]))).toMatchObject({
      "model.path": expect.stringMatching(/"none" was not pushed to models; there are: tiny/) as string,
      "train.jsonl": expect.stringMatching(/has a.jsonl, b.jsonl: name one/) as string,
      "validation.dataset.jsonl": expect.stringMatching(/has no "test.jsonl"; it has train.jsonl/) as string,
      "agent.args.notes": "agents have no files: name it in environment.args",
      "environment.args.corpus": expect.stringMatching(/must be "artifact:/) as string,
    });
  });

  it("have to be pinned in the text of an object, which is told the text to write", async () => {
    const { spec: pinned } = await pinArtifacts(spec, artifacts);
    const found = unpinned(spec, pinned);
    expect(found.map(({ path }) => path)).toContain("model.path");
    expect(found.find(({ path }) => path === "model.path")?.reason).toContain(
      `"artifact://models/tiny@sha256:${MODEL}"`,
    );
    expect(unpinned(pinned, pinned)).toEqual([]);
  });

  it("tell which jobs have a digest", async () => {
    const { spec: pinned } = await pinArtifacts(spec, artifacts);
    const jobs = [pinned, specOf({ model: { path: "/m" } })].map((one) => create(JobSchema, { spec: one }));
    expect(Object.fromEntries(jobsByDigest(jobs))).toEqual({ [MODEL]: ["j"], [SUMS]: ["j"] });
  });

  it("leave a spec without any as it is", async () => {
    const plain = specOf({ model: { path: "/m" } });
    expect((await pinArtifacts(plain, artifacts)).spec).toBe(plain);
  });
});
