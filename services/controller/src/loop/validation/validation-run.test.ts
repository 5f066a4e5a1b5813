// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";

import { create } from "@bufbuild/protobuf";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";

import { compileJob } from "../../jobs/compiled-job.ts";
import { seedTasks } from "../../datasets/dataset.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex } from "../ports.ts";
import { ValidationRun } from "./validation-run.ts";

const COUNT = 10;
const never = new AbortController().signal;

/** Seals one dispatched episode at a time and notes how many are open. */
function stage(sealedBefore: readonly string[], concurrency?: number) {
  const sealed = new Set(sealedBefore);
  const open: RolloutTask[] = [];
  const dispatched: string[] = [];
  let widest = 0;
  const spec = create(JobSpecSchema, {
    name: "judged",
    validation: { variants: [{ name: "eval", attempts: 2 }], ...(concurrency === undefined ? {} : { concurrency }) },
  });
  const episodes = {
    find: (id: string) =>
      sealed.has(id)
        ? { summary: create(EpisodeSummarySchema, { episodeId: id, failureClass: FailureClass.NONE }) }
        : undefined,
    get size() {
      return sealed.size;
    },
    sealedAfter: (seen: number) => [...sealed].slice(seen),
    grown: async (seen: number) => {
      await turn();
      if (sealed.size > seen) return;
      const next = open.shift();
      if (!next) throw new Error("waits for nothing");
      sealed.add(next.episodeId);
    },
  } as unknown as EpisodeIndex;
  const queue = {
    publish: async (tasks: AsyncIterable<RolloutTask>) => {
      for await (const task of tasks) {
        open.push(task);
        dispatched.push(task.episodeId);
        widest = Math.max(widest, open.length);
      }
    },
    purge: () => Promise.resolve(),
  };
  const context = { spec, job: compileJob(spec) } as unknown as JobContext;
  const run = new ValidationRun(context, { episodes, queue, tasks: seedTasks(0, COUNT), known: [] });
  return { run, dispatched, widest: () => widest };
}

describe("ValidationRun", () => {
  it("dispatches everything at once, or as many as may be open", async () => {
    const all = stage([]);
    expect(await all.run.run(0, never)).toMatchObject([{ tasks: COUNT, episodes: 2 * COUNT }]);
    expect(all.widest()).toBe(2 * COUNT);
    const few = stage([], 3);
    expect(await few.run.run(0, never)).toMatchObject([{ tasks: COUNT, episodes: 2 * COUNT }]);
    expect(few.widest()).toBe(3);
    expect(new Set(few.dispatched).size).toBe(2 * COUNT);
  });

  it.each([undefined, 1, 100])("plays nothing again that is sealed (at most %s at a time)", async (concurrency) => {
    const before = ["judged/v0-eval-0/s0", "judged/v0-eval-0/s1", "judged/v0-eval-9/s1"];
    const { run, dispatched } = stage(before, concurrency);
    expect(await run.run(0, never)).toMatchObject([{ episodes: 2 * COUNT }]);
    expect(dispatched).toHaveLength(2 * COUNT - before.length);
    expect(dispatched.filter((id) => before.includes(id))).toEqual([]);
  });
});
