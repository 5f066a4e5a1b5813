// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type BatchManifest,
  BatchManifestSchema,
  type DispatchRecord,
  DispatchRecordSchema,
  type RolloutTask,
} from "@whetstone/proto/events/v1/events";
import { JobSpecSchema, type PolicyGradientSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AdvantageEstimator, EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { compileJob } from "../../jobs/compiled-job.ts";
import { seedTasks } from "../../datasets/dataset.ts";
import { BatchCollector } from "./batch-collector.ts";
import { keptSummary } from "../../../test-support/kept-summary.ts";
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

  /** Books, queue and stream that outlive a collector. `rewardOf`: what every episode that is queued is sealed with, if it is. */
  function world(own: MessageInitShape<typeof PolicyGradientSchema>, rewardOf: (id: string) => number) {
    const kind = { case: "policyGradient" as const, value: { groupSize: 2, ...own } };
    const given = create(JobSpecSchema, { ...settings, algorithm: { kind } });
    const records: DispatchRecord[] = [];
    const sealed = new Set<string>();
    const manifests: BatchManifest[] = [];
    const published: string[] = [];
    const tasks: string[] = [];
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
      publish: async (queued: AsyncIterable<RolloutTask>) => {
        for await (const { episodeId, task } of queued) {
          published.push(episodeId.slice("books/".length));
          tasks.push(task?.id ?? "");
        }
      },
      purge: () => Promise.resolve(),
    };
    const summaryOf = (id: string) =>
      keptSummary(create(EpisodeSummarySchema, { failureClass: 1, sampledTokens: 3, reward: rewardOf(id) }));
    const episodes = {
      find: (id: string) => (sealed.has(id) ? { sequence: 1n, summary: summaryOf(id) } : undefined),
      get size() {
        return sealed.size;
      },
      grown: async (seen: number, signal: AbortSignal) => {
        while (sealed.size <= seen) await delay(1, undefined, { signal });
      },
    } as unknown as EpisodeIndex;
    const context = { spec: given, job: compileJob(given), onCounts: () => undefined } as unknown as JobContext;
    const begin = () => new BatchCollector(context, { ledger, queue, episodes, tasks: seedTasks(0, 100) });
    /** Seals what was queued since the last time. */
    const seal = (ids = published.splice(0)): void => ids.forEach((id) => sealed.add(`books/${id}`));
    return { begin, seal, published, tasks, records };
  }

  it("goes on with baselines after a restart between dispatch and manifest: the same ids, each sealed one used once", async () => {
    const { begin, seal, published } = world({ advantage: AdvantageEstimator.REMAX }, () => 0.5);
    await begin().admit(0, never);
    expect(published.splice(0)).toEqual(["g0/s0", "g0/s1", "b0/s0", "g1/s0", "g1/s1", "b1/s0"]);
    seal(["b0/s0", "g0/s0"]);
    const again = begin();
    await again.restore(never);
    expect(published).toEqual(["g0/s1", "g1/s0", "g1/s1", "b1/s0"]);
    expect([again.dispatchedEpisodes, again.dispatched.length]).toEqual([6, 1]);
    seal();
    const { manifest, metrics } = await again.collect(0, never);
    expect(manifest.baselines.map(({ episodeId }) => episodeId)).toEqual(["books/b0/s0", "books/b1/s0"]);
    expect([manifest.entries.length, manifest.voided.length]).toEqual([4, 0]);
    expect(metrics).toMatchObject({ "baseline/episodes": 2, "baseline/reward": 0.5, "rollout/episodes": 4 });
  });

  it("replaces groups without a signal by the next tasks, the same ones after a restart in the middle", async () => {
    // Groups 0 and 2 have a signal, and all from 5 on.
    const hasSignal = (id: string): boolean => /g(0|2|[5-9])\/s1/.test(id);
    const { begin, seal, published, tasks, records } = world({ dynamicSampling: {} }, (id) => Number(hasSignal(id)));
    const first = begin();
    await first.admit(0, never);
    first.live(1);
    await first.admit(1, never);
    expect(published).toEqual(["g0/s0", "g0/s1", "g1/s0", "g1/s1", "g2/s0", "g2/s1", "g3/s0", "g3/s1"]);
    seal();
    const crash = new AbortController();
    const collecting = first.collect(0, crash.signal);
    await expect.poll(() => published).toEqual(["g4/s0", "g4/s1"]);
    crash.abort();
    await expect(collecting).rejects.toThrow("aborted");
    published.length = 0;
    const again = begin();
    await again.restore(never);
    expect(published).toEqual(["g4/s0", "g4/s1"]);
    expect(new Set(tasks.slice(-2))).toEqual(new Set(["seed-4"]));
    seal();
    const taking = again.collect(0, never);
    await expect.poll(() => published).toEqual(["g5/s0", "g5/s1"]);
    seal();
    const { manifest, metrics } = await taking;
    expect(manifest.entries.map(({ episodeId }) => episodeId.slice(6))).toEqual(["g0/s0", "g0/s1", "g5/s0", "g5/s1"]);
    expect(new Set(manifest.voided.map(({ reason }) => reason))).toEqual(new Set(["NoSignal"]));
    expect([manifest.voided.length, metrics["groups_filtered"]]).toEqual([4, 2]);
    expect(records.map(({ groups }) => groups)).toEqual([
      [0n, 1n, 4n, 5n],
      [2n, 3n],
    ]);
    expect(again.dispatchedEpisodes).toBe(12);
  });
});
