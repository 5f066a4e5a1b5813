// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type DispatchRecord, DispatchRecordSchema, type RolloutTask } from "@whetstone/proto/events/v1/events";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { compileJob } from "../../jobs/compiled-job.ts";
import { seedTasks } from "../../datasets/dataset.ts";
import { BatchCollector } from "./batch-collector.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex, Ledger, TaskQueue } from "../ports.ts";

const never = new AbortController().signal;
const spec = create(JobSpecSchema, {
  name: "books",
  algorithm: { kind: { case: "policyGradient", value: { groupSize: 2 } } },
  loop: { steps: 3, batchGroups: 2 },
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
});
