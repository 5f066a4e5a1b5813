// SPDX-License-Identifier: Apache-2.0
import { setImmediate as turn } from "node:timers/promises";

import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import type { BatchManifest, RolloutTask } from "@whetstone/proto/events/v1/events";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EvaluateResultSchema } from "@whetstone/proto/trainer/v1/trainer";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";

import { compileJob } from "../../jobs/compiled-job.ts";
import { seedTasks } from "../../datasets/dataset.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex } from "../ports.ts";
import { ValidationRun } from "./validation-run.ts";

const COUNT = 10;
const never = new AbortController().signal;

const EVALUATED = { validation: { variants: [{ name: "eval", attempts: 2 }] } };

/** Seals one dispatched episode at a time and notes how many are open, and what the trainer is to evaluate. */
function stage(sealedBefore: readonly string[], concurrency?: number, what: JsonObject = EVALUATED) {
  const sealed = new Set(sealedBefore);
  const open: RolloutTask[] = [];
  const dispatched: string[] = [];
  let widest = 0;
  const spec = fromJson(JobSpecSchema, { name: "judged", ...what });
  if (concurrency !== undefined && spec.validation) spec.validation.concurrency = concurrency;
  const manifests: BatchManifest[] = [];
  let trainers: JsonObject | undefined = { metrics: { loss: 0.5 } };
  const trainer = {
    evaluate: (manifest: BatchManifest) => {
      manifests.push(manifest);
      return Promise.resolve(trainers && fromJson(EvaluateResultSchema, trainers));
    },
  };
  const episodes = {
    find: (id: string) =>
      sealed.has(id) ? { sequence: BigInt([...sealed].indexOf(id)), summary: summaryOf(id) } : undefined,
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
  const run = new ValidationRun(context, { trainer, episodes, queue, tasks: seedTasks(0, COUNT), known: [] });
  const answers = (given: JsonObject | undefined): void => void (trainers = given);
  return { run, dispatched, widest: () => widest, manifests, answers };
}

/** What was rejected of the third task could not be rendered. */
function summaryOf(episodeId: string) {
  const failureClass = episodeId.endsWith("-2/s1") ? FailureClass.INFRASTRUCTURE : FailureClass.NONE;
  return create(EpisodeSummarySchema, { episodeId, failureClass, demonstrationTokens: 3, digest: episodeId });
}

describe("ValidationRun", () => {
  it("dispatches everything at once, or as many as may be open", async () => {
    const all = stage([]);
    expect(await all.run.run(0, never)).toMatchObject([{ tasks: COUNT, episodes: 2 * COUNT - 1, voided: 1 }]);
    expect(all.widest()).toBe(2 * COUNT);
    const few = stage([], 3);
    expect(await few.run.run(0, never)).toMatchObject([{ tasks: COUNT, episodes: 2 * COUNT - 1 }]);
    expect(few.widest()).toBe(3);
    expect(new Set(few.dispatched).size).toBe(2 * COUNT);
  });

  it.each([undefined, 1, 100])("plays nothing again that is sealed (at most %s at a time)", async (concurrency) => {
    const before = ["judged/v0-eval-0/s0", "judged/v0-eval-0/s1", "judged/v0-eval-9/s1"];
    const { run, dispatched } = stage(before, concurrency);
    expect(await run.run(0, never)).toMatchObject([{ episodes: 2 * COUNT - 1 }]);
    expect(dispatched).toHaveLength(2 * COUNT - before.length);
    expect(dispatched.filter((id) => before.includes(id))).toEqual([]);
  });

  const pairs = { algorithm: { dpo: {} }, loop: { steps: 4 }, validation: {} };

  it("without an agent has the trainer evaluate the demonstrations, whole pairs only", async () => {
    const { run, dispatched, manifests } = stage([], undefined, pairs);
    const counts = { tasks: COUNT - 1, episodes: 2 * COUNT - 2, voided: 2, policyVersion: 3n };
    expect(await run.run(3, never)).toMatchObject([{ step: 3, variant: "heldout", metrics: { loss: 0.5 }, ...counts }]);
    expect(dispatched).toHaveLength(2 * COUNT);
    expect(manifests).toMatchObject([{ job: "judged", step: 3 }]);
    const listed = manifests[0]?.entries.map(({ episodeId }) => episodeId);
    expect(listed?.slice(2, 6)).toEqual([1, 3].flatMap((i) => [0, 1].map((s) => `judged/v3-heldout-${i}/s${s}`)));
  });

  it("says what the trainer could not evaluate, and that it has gone on", async () => {
    const some = stage([], undefined, pairs);
    some.answers({ metrics: { loss: 1 }, dropped: [{ message: "too large" }] });
    expect(await some.run.run(0, never)).toMatchObject([{ episodes: 2 * COUNT - 3, voided: 3 }]);
    const late = stage([], undefined, pairs);
    late.answers(undefined);
    const [result] = await late.run.run(0, never);
    expect(result).toMatchObject({ episodes: 0, metrics: {}, voided: 2 * COUNT });
    expect(result?.commonestFailure).toContain("gone on to a later version");
  });
});
