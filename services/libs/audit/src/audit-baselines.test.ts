// SPDX-License-Identifier: Apache-2.0
import type { BatchManifest } from "@whetstone/proto/events/v1/events";
import { beforeEach, describe, expect, it } from "vitest";
import { AuditedBooks, NONE } from "../test-support/audited-books.ts";
import { JOB, type JobBooks } from "../test-support/job-books.ts";
import type { AuditResult } from "./audit-facts.ts";

const given = new AuditedBooks();
let books: JobBooks;
beforeEach(() => void ({ books } = given));
const audit = (): Promise<AuditResult> => given.audit();

const BASE = { $typeName: "whetstone.events.v1.BaselineEntry" as const };

describe("audit of baselines", () => {
  it("counts baselines apart: they are neither trained nor voided", async () => {
    await books.stepWithBaselines(0);
    await books.record(0);
    books.consume(0);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 7, trained: 4, voided: 1, baseline: 2, inFlight: 0 });
  });
});

describe("audit of falsified baselines", () => {
  const BASELINE = `${JOB}/b0/s1`;
  const isIt = ({ episodeId }: { episodeId: string }): boolean => episodeId === BASELINE;

  it.each<[string, (manifest: BatchManifest) => void, Partial<AuditResult>, string, string]>([
    [
      "one that its batch forgot",
      (manifest) => void (manifest.baselines = manifest.baselines.filter((one) => !isIt(one))),
      { lost: 2 },
      BASELINE,
      "neither uses nor voids it",
    ],
    [
      "one that was voided though its group is trained",
      (manifest) => {
        const [one] = manifest.baselines.splice(manifest.baselines.findIndex(isIt), 1);
        manifest.voided.push({ ...manifest.voided[0]!, episodeId: one!.episodeId });
      },
      { lost: 1, voided: 2 },
      `${JOB}/g0`,
      "without the baseline",
    ],
    [
      "one that is listed twice",
      (manifest) => void manifest.baselines.push(manifest.baselines.find(isIt)!),
      { duplicated: 1 },
      BASELINE,
      "listed again",
    ],
    [
      "one that is trained",
      (manifest) => void manifest.entries.push(...books.entry(BASELINE)),
      { duplicated: 1, lost: 2 },
      BASELINE,
      "listed again",
    ],
    [
      "one that is trained instead of used",
      (manifest) => {
        const [one] = manifest.baselines.splice(manifest.baselines.findIndex(isIt), 1);
        manifest.entries.push({ ...manifest.entries[0]!, ...one!, $typeName: "whetstone.events.v1.BatchEntry" });
      },
      { lost: 2 },
      BASELINE,
      "but its batch trains it",
    ],
    [
      "an episode to train that is used as one",
      (manifest) => {
        const [entry] = manifest.entries.splice(0, 1);
        manifest.baselines.push({
          ...manifest.baselines[0]!,
          ...books.entry(entry!.episodeId)[0]!,
          ...BASE,
          group: "g0",
        });
      },
      { duplicated: 1, lost: 1 },
      `${JOB}/g0/s0`,
      "but its batch uses it",
    ],
    [
      "one that is used for another group",
      (manifest) => void (manifest.baselines.find(isIt)!.group = "g1"),
      { lost: 2, duplicated: 1 },
      BASELINE,
      'but its batch uses it for "g1"',
    ],
    [
      "one whose reward is not that of its body",
      (manifest) => void (manifest.baselines.find(isIt)!.reward = 1),
      { lost: 1 },
      BASELINE,
      "its batch says 1",
    ],
  ])("finds %s", async (...[, falsify, expected, subject, reason]) => {
    await books.stepWithBaselines(0, falsify);
    const result = await audit();
    expect(result).toMatchObject({ ...NONE, ...expected, stale: 0 });
    expect(result.violations.find((one) => one.subject === subject)?.reason).toContain(reason);
  });

  it("finds one of a version that is too old (I3), and one whose body is gone", async () => {
    await books.cleanStep(0);
    await books.cleanStep(1);
    await books.stepWithBaselines(2, (manifest) => void (manifest.baselines[1]!.sequence = 99n), 0);
    await books.record(2);
    books.consume(2);
    const result = await audit();
    expect(result.stale).toBeGreaterThan(0);
    expect(result.violations.map(({ reason }) => reason).join()).toContain("used in step 2 with lag 1");
    expect(result.violations.find(({ subject }) => subject === `${JOB}/b5/s0`)?.reason).toContain("names sequence 99");
  });
});
