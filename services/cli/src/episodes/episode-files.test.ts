// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { type Episode, EpisodeSchema, FailureClass, Purpose, TerminationReason } from "@whetstone/proto/types/v1/types";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { afterAll, describe, expect, it } from "vitest";
import type { ExportedEpisode } from "./episode-rows.ts";
import { COLUMNS } from "./episode-rows.ts";
import { openJsonl, openParquet } from "./episode-files.ts";

const folder = mkdtempSync(join(tmpdir(), "whet-files-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function episode(sample: number): Episode {
  return create(EpisodeSchema, {
    id: `lake/g1/s${sample}`,
    job: "lake",
    group: "g1",
    sample,
    purpose: Purpose.TRAIN,
    task: { id: "seed-1", source: "lake", payload: { seed: 1 } },
    seed: 2n ** 63n,
    terminationReason: TerminationReason.ENV_DONE,
    failure: { failureClass: FailureClass.NONE },
    reward: 0.5,
    trajectories: [{ id: "t0", role: "solver", reward: 0.5, steps: [{ callId: "c0", action: "Right", reward: 0.5 }] }],
    calls: [
      {
        id: "c0",
        role: "solver",
        promptIds: [1, 2],
        completionIds: [3, 4, 5],
        logprobs: [-0.5, -1, -2],
        versionSpans: [{ start: 0, end: 2, policyVersion: 7n }],
      },
      { id: "c1", role: "judge", parentId: "c0", promptIds: [6], completionIds: [], text: "unused" },
    ],
  });
}

/** Failed before its first call. */
const empty = create(EpisodeSchema, { id: "lake/g2/s0", failure: { failureClass: FailureClass.ENVIRONMENT } });

async function write(file: Awaited<ReturnType<typeof openJsonl>>, all: readonly ExportedEpisode[]): Promise<void> {
  for (const one of all) await file.add(one);
  await file.finish();
}

async function rows(path: string): Promise<Record<string, unknown>[]> {
  return (await parquetReadObjects({ file: await asyncBufferFromFile(path) })) as Record<string, unknown>[];
}

describe("parquet", () => {
  it("has a row for each turn, for calls that no step names, and for an episode without any", async () => {
    const path = join(folder, "a.parquet");
    await write(openParquet(path), [{ episode: episode(0), trainedInStep: 3 }, { episode: empty }]);
    const [turn, unused, nothing] = await rows(path);
    expect(turn).toMatchObject({
      episode_id: "lake/g1/s0",
      task_payload: '{"seed":1}',
      seed: "9223372036854775808",
      trained_in_step: 3,
      role: "solver",
      step: 0,
      action: "Right",
      reward: 0.5,
      prompt_ids: [1, 2],
      completion_ids: [3, 4, 5],
      logprobs: [-0.5, -1, -2],
      policy_versions: [7, 7, -1],
    });
    expect(unused).toMatchObject({ call_id: "c1", role: "judge", model_response: "unused", completion_ids: [] });
    expect(unused?.["step"] ?? null).toBeNull();
    expect(nothing).toMatchObject({ episode_id: "lake/g2/s0", failure_class: "ENVIRONMENT" });
    expect(Object.keys(nothing ?? {})).toEqual(COLUMNS.map(({ name }) => name));
  });

  it("goes on over row groups", async () => {
    const path = join(folder, "many.parquet");
    await write(
      openParquet(path),
      Array.from({ length: 2500 }, (_, i) => ({ episode: episode(i) })),
    );
    const all = await rows(path);
    expect(all).toHaveLength(5000);
    expect(all[4998]).toMatchObject({ episode_id: "lake/g1/s2499", completion_ids: [3, 4, 5] });
  });
});

describe("jsonl", () => {
  it("holds whole episodes, so that they can be read back", async () => {
    const path = join(folder, "a.jsonl");
    await write(await openJsonl(path), [{ episode: episode(0), trainedInStep: 3 }, { episode: empty }]);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    const [{ trainedInStep, ...first } = {}, second] = lines.map((line) => JSON.parse(line) as JsonObject);
    expect(fromJson(EpisodeSchema, first)).toEqual(episode(0));
    expect([trainedInStep, second]).toMatchObject([3, { id: "lake/g2/s0" }]);
  });

  it("leaves no half file behind", async () => {
    const path = join(folder, "half.jsonl");
    const file = await openJsonl(path);
    await file.add({ episode: episode(0) });
    file.discard();
    expect(existsSync(path)).toBe(false);
  });
});
