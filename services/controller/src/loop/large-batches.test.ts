// SPDX-License-Identifier: Apache-2.0
// What many tasks cost the controller, counted in steps: linear, with a turn for others after each thousand of them.
import { setImmediate as turn } from "node:timers/promises";

import { create, toBinary } from "@bufbuild/protobuf";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  type RolloutTask,
} from "@whetstone/proto/events/v1/events";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import { countTurns } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";

import { compileJob } from "../jobs/compiled-job.ts";
import { seedTasks } from "../datasets/dataset.ts";
import { EpisodeTable } from "./batch/episode-table.ts";
import { BatchCollector } from "./batch/batch-collector.ts";
import type { JobContext } from "./job-context.ts";
import type { EpisodeIndex, Ledger, TaskQueue } from "./ports.ts";
import { ValidationRun } from "./validation/validation-run.ts";

const never = new AbortController().signal;
/** Seals what was queued, `sealedAtOnce` between two wakes of who waits, and counts how often the index is asked. */
function stage(sealedAtOnce = 10) {
  const sealed = new EpisodeTable();
  const open: string[] = [];
  const seen = { finds: 0, ahead: 0, published: 0, turns: 0 };
  const episodes: EpisodeIndex = {
    find: (id) => {
      seen.finds++;
      return sealed.find(id);
    },
    get size() {
      return sealed.size;
    },
    sealedAfter: (from) => sealed.idsAfter(from),
    grown: async () => {
      await turn();
      for (const id of open.splice(0, sealedAtOnce)) sealed.add(1, sealOf(id));
    },
  };
  const queue: TaskQueue = {
    publish: async (tasks: AsyncIterable<RolloutTask>) => {
      const clock = setInterval(() => seen.turns++);
      for await (const { episodeId } of tasks) {
        open.push(episodeId);
        seen.published++;
      }
      clearInterval(clock);
    },
    purge: () => Promise.resolve(),
  };
  return { sealed, episodes, queue, seen };
}

const sealOf = (episodeId: string) =>
  create(EpisodeSummarySchema, { episodeId, sampledTokens: 1, isCorrect: true, failureClass: 1 });

/** Looks at the index in an evaluation of so many tasks. */
async function evaluate(count: number, concurrency?: number) {
  const { episodes, queue, seen } = stage();
  const variants = [{ name: "eval", attempts: 1 }];
  const bound = concurrency === undefined ? {} : { concurrency };
  const spec = create(JobSpecSchema, { name: "large", validation: { variants, ...bound } });
  const context = { spec, job: compileJob(spec) } as unknown as JobContext;
  const trainer = { evaluate: () => Promise.reject(new Error("nothing is to be evaluated")) };
  const run = new ValidationRun(context, { trainer, episodes, queue, tasks: seedTasks(0, count), known: [] });
  const [result] = await run.run(0, never);
  expect([result?.tasks, seen.published]).toEqual([count, count]);
  return seen;
}

/** A dispatched batch of so many groups of 8. */
async function dispatched(groups: number, sealedAtOnce?: number) {
  const { episodes, queue, seen } = stage(sealedAtOnce);
  const kind = { case: "policyGradient" as const, value: { groupSize: 8 } };
  const spec = create(JobSpecSchema, { name: "large", algorithm: { kind }, loop: { steps: 1, batchGroups: groups } });
  const manifests: BatchManifest[] = [];
  const ledger = {
    epoch: 1n,
    collected: () => Promise.resolve(new Set()),
    saveDispatch: (_record: DispatchRecord) => Promise.resolve(),
    createManifest: (manifest: BatchManifest) => {
      manifests.push(manifest);
      return Promise.resolve(toBinary(BatchManifestSchema, manifest));
    },
  } as unknown as Ledger;
  const context = { spec, job: compileJob(spec), onCounts: () => undefined } as unknown as JobContext;
  const batches = new BatchCollector(context, { ledger, queue, episodes, tasks: seedTasks(0, groups) });
  await batches.admit(0, never);
  return { batches, episodes, seen, manifests };
}

describe("an evaluation of many tasks", () => {
  it.each([undefined, 100])("asks for each episode a fixed number of times (at most %s open)", async (concurrency) => {
    for (const count of [1_000, 4_000]) {
      const { finds } = await evaluate(count, concurrency);
      expect(finds / count).toBeLessThan(4);
    }
  });

  it("lets others have their turn while it makes its tasks", async () => {
    expect((await evaluate(8_000)).turns).toBeGreaterThan(2);
  });
});

describe("a batch of many episodes", () => {
  it("asks for each episode a fixed number of times, however often episodes are sealed", async () => {
    for (const groups of [100, 400]) {
      const { batches, seen } = await dispatched(groups);
      const { manifest } = await batches.collect(0, never);
      expect(manifest.entries.length + manifest.voided.length).toBe(groups * 8);
      expect(seen.finds / (groups * 8)).toBeLessThan(6);
    }
  });

  it("lets others have their turn while it is looked through, planned, read back and counted", async () => {
    const { batches, episodes } = await dispatched(1_000, Infinity);
    await episodes.grown(0, never);
    // Five passes over 8,000 episodes.
    expect(await countTurns(() => batches.collect(0, never))).toBeGreaterThanOrEqual(5 * 8 - 2);
  });

  it("lets others have their turn while it is voided", async () => {
    const { batches, manifests } = await dispatched(1_000);
    expect(await countTurns(() => batches.voidInFlight())).toBeGreaterThanOrEqual(8 - 1);
    expect(manifests[0]?.voided).toHaveLength(8_000);
  });
});
