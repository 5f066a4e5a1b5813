// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  type RolloutTask,
} from "@whetstone/proto/events/v1/events";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AdvantageEstimator, EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { compileJob } from "../../jobs/compiled-job.ts";
import { seedTasks } from "../../datasets/dataset.ts";
import { BatchCollector } from "./batch-collector.ts";
import { keptSummary } from "./sealed-episode.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex, Ledger, TaskQueue } from "../ports.ts";

const never = new AbortController().signal;
const settings = { name: "books", loop: { steps: 3, batchGroups: 2 } };
const spec = create(JobSpecSchema, {
  ...settings,
  algorithm: { kind: { case: "policyGradient", value: { groupSize: 2 } } },
});

/** A collector whose ledger and queue note what reaches them, in order. `refuse`: the ledger takes no dispatch record. */
function stage(refuse = false) {
  const order: string[] = [];
  const ledger = {
    saveDispatch: (record: DispatchRecord) => {
      if (refuse) return Promise.reject(new Error("the ledger is away"));
      order.push(`record ${record.step}`);
      return Promise.resolve();
    },
  } as unknown as Ledger;
  const queue: TaskQueue = {
    publish: async (tasks: AsyncIterable<RolloutTask>) => {
      order.push(`${(await Array.fromAsync(tasks)).length} tasks`);
    },
    purge: () => Promise.resolve(),
  };
  const episodes = { find: () => undefined, size: 0 } as unknown as EpisodeIndex;
  const context = { spec, job: compileJob(spec), onCounts: () => undefined } as unknown as JobContext;
  return { order, ledger, batches: new BatchCollector(context, { ledger, queue, episodes, tasks: seedTasks(0, 4) }) };
}

describe("BatchCollector", () => {
  it("writes a batch into the books before its tasks are queued (I2)", async () => {
    const { order, batches } = stage();
    await batches.admit(0, never);
    expect(order).toEqual(["record 0", "4 tasks"]);
  });

  it("queues nothing of a batch that the books did not take (I2)", async () => {
    const { order, batches } = stage(true);
    await expect(batches.admit(0, never)).rejects.toThrow("the ledger is away");
    expect(order).toEqual([]);
    expect(batches.dispatched).toEqual([]);
  });

  it("puts back what was never sealed, by the list of manifests alone, and knows how much was dispatched", async () => {
    const { order, ledger, batches } = stage();
    const record = (step: number, samples: number[]) => create(DispatchRecordSchema, { step, samples });
    const books = {
      dispatches: () => Promise.resolve([record(0, [2, 2]), record(1, [2, 3])]),
      collected: () => Promise.resolve(new Set([0])),
      manifest: () => Promise.reject(new Error("read a manifest")),
    };
    Object.assign(ledger, books);
    await batches.restore(never);
    expect([order, batches.dispatchedEpisodes]).toEqual([["5 tasks"], 9]);
  });

  it("goes on with baselines after a restart between dispatch and manifest: the same ids, each sealed one used once", async () => {
    const value = { groupSize: 2, advantage: AdvantageEstimator.REMAX };
    const remax = create(JobSpecSchema, { ...settings, algorithm: { kind: { case: "policyGradient", value } } });
    const records: DispatchRecord[] = [];
    const sealed = new Set<string>();
    const manifests: BatchManifest[] = [];
    const published: string[] = [];
    const ledger = {
      dispatches: () => Promise.resolve(records),
      collected: () => Promise.resolve(new Set(manifests.map(({ step }) => step))),
      saveDispatch: (record: DispatchRecord) => Promise.resolve(void (records[record.step] = record)),
      createManifest: (manifest: BatchManifest) => {
        manifests.push(manifest);
        return Promise.resolve(toBinary(BatchManifestSchema, manifest));
      },
    } as unknown as Ledger;
    const queue: TaskQueue = {
      publish: async (tasks: AsyncIterable<RolloutTask>) => {
        for await (const { episodeId } of tasks) published.push(episodeId);
      },
      purge: () => Promise.resolve(),
    };
    const summary = keptSummary(create(EpisodeSummarySchema, { failureClass: 1, sampledTokens: 3, reward: 0.5 }));
    const episodes = {
      find: (id: string) => (sealed.has(id) ? { sequence: 1n, summary } : undefined),
      size: 0,
    } as unknown as EpisodeIndex;
    const context = { spec: remax, job: compileJob(remax), onCounts: () => undefined } as unknown as JobContext;
    const begin = () => new BatchCollector(context, { ledger, queue, episodes, tasks: seedTasks(0, 4) });
    await begin().admit(0, never);
    expect(published).toEqual(["g0/s0", "g0/s1", "b0/s0", "g1/s0", "g1/s1", "b1/s0"].map((id) => `books/${id}`));
    for (const id of ["books/b0/s0", "books/g0/s0"]) sealed.add(id);
    const again = begin();
    published.length = 0;
    await again.restore(never);
    expect(published).toEqual(["g0/s1", "g1/s0", "g1/s1", "b1/s0"].map((id) => `books/${id}`));
    expect([again.dispatchedEpisodes, again.dispatched.length]).toEqual([6, 1]);
    for (const id of published) sealed.add(id);
    const { manifest, metrics } = await again.collect(0, never);
    expect(manifest.baselines.map(({ episodeId }) => episodeId)).toEqual(["books/b0/s0", "books/b1/s0"]);
    expect([manifest.entries.length, manifest.voided.length]).toEqual([4, 0]);
    expect(metrics).toMatchObject({ "baseline/episodes": 2, "baseline/reward": 0.5, "rollout/episodes": 4 });
  });
});
