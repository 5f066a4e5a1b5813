// SPDX-License-Identifier: Apache-2.0
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { beforeEach, describe, expect, it } from "vitest";
import { AuditedBooks, NONE } from "../test-support/audited-books.ts";
import { JOB, type JobBooks, span, UID } from "../test-support/job-books.ts";
import type { AuditResult } from "./audit-facts.ts";

const given = new AuditedBooks();
let books: JobBooks;
beforeEach(() => void ({ books } = given));
const audit = (): Promise<AuditResult> => given.audit();

describe("audit of sound books", () => {
  it("finds nothing in a finished run", async () => {
    await books.open(JobPhase.SUCCEEDED);
    await books.cleanStep(0);
    await books.cleanStep(1);
    await books.seal(`${JOB}/v0-greedy-0/s0`, 0); // validation is in nobody's books
    expect(await audit()).toEqual({
      ...NONE,
      job: JOB,
      dispatched: 8,
      trained: 8,
      voided: 0,
      baseline: 0,
      inFlight: 0,
      checkedEpisodes: 8,
      violations: [],
    });
  });

  it("counts what is on its way, as task or as sealed episode", async () => {
    await books.cleanStep(0);
    await books.dispatch(1);
    const [sealed = "", ...tasks] = books.ids(1);
    await books.seal(sealed, 1);
    for (const id of tasks) await books.task(id);
    expect(await audit()).toMatchObject({
      ...NONE,
      dispatched: 8,
      trained: 4,
      voided: 0,
      inFlight: 4,
      checkedEpisodes: 4,
    });
  });

  it("counts voided ids and refills", async () => {
    await books.dispatch(0, [3, 2]);
    const [void0 = "", ...kept] = [...books.ids(0), `${JOB}/g0/s2`];
    for (const id of [void0, ...kept]) await books.seal(id, 0);
    await books.manifest(0, (manifest) => {
      manifest.entries = kept.flatMap((id) => books.entry(id));
      manifest.voided = [
        { $typeName: "whetstone.events.v1.VoidedEntry", episodeId: void0, failureClass: 3, reason: "TaskBroken" },
      ];
    });
    await books.record(0);
    books.consume(0);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 5, trained: 4, voided: 1, inFlight: 0 });
  });

  it("counts what a step dropped as voided, its body gone or not as the batch names it", async () => {
    await books.dispatch(0);
    const [gone = "", other = "", ...kept] = books.ids(0);
    for (const id of [other, ...kept]) await books.seal(id, 0, id === other ? (it) => void (it.calls = []) : undefined);
    await books.manifest(0, (manifest) => {
      const entry = manifest.entries[0]!;
      entry.digest = "0".repeat(64);
      manifest.entries.unshift({ ...entry, episodeId: gone, sequence: 99n });
    });
    books.consume(0, undefined, 2, [gone, other]);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 4, trained: 2, voided: 2, inFlight: 0 });
    await books.record(0, undefined, [gone, other]);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 4, trained: 2, voided: 2, inFlight: 0 });
  });

  it("allows a step to be recorded before its checkpoint is written", async () => {
    await books.cleanStep(0);
    await books.batch(1);
    await books.record(1);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 8, trained: 8, inFlight: 0 });
    await books.open(JobPhase.SUCCEEDED);
    expect(await audit()).toMatchObject({ lost: 4 });
  });

  it("takes the newest checkpoint from the object store where the disk has none, and no other job's", async () => {
    await books.cleanStep(0);
    await books.open(JobPhase.SUCCEEDED);
    const folder = join(given.folder, UID, "checkpoints");
    const text = readFileSync(join(folder, "step-1/state.json"), "utf8");
    rmSync(folder, { recursive: true });
    expect(await audit()).toMatchObject({ lost: 4 });
    const auditWith = (state: string | undefined) =>
      given.audit({ storedState: () => Promise.resolve(state === undefined ? undefined : Buffer.from(state)) });
    expect(await auditWith(text)).toMatchObject({ ...NONE, trained: 4 });
    expect(await auditWith(undefined)).toMatchObject({ lost: 4 });
    await expect(auditWith(text.replace(UID, "other"))).rejects.toThrow(/in the object store belongs to the run other/);
  });

  it("waits for tasks whose dispatch record was just written", async () => {
    await books.dispatch(0);
    const late = new Promise((resolve) => setTimeout(resolve, 30)).then(async () => {
      for (const id of books.ids(0)) await books.task(id);
    });
    expect(await audit()).toMatchObject({ ...NONE, inFlight: 4 });
    await late;
  });

  it("takes what was on its way in a cancelled job as voided", async () => {
    await books.open(JobPhase.CANCELLED);
    await books.cleanStep(0);
    await books.dispatch(1);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 8, trained: 4, voided: 4, inFlight: 0 });
  });

  it("reads as many episodes as it calls trained, though a job that failed has a batch that no step took", async () => {
    await books.open(JobPhase.FAILED);
    await books.cleanStep(0);
    await books.batch(1);
    expect(await audit()).toMatchObject({ ...NONE, dispatched: 8, trained: 4, voided: 4, checkedEpisodes: 4 });
  });

  it("allows tokens as old as the lag, and mixed versions", async () => {
    await books.cleanStep(0);
    await books.dispatch(1);
    for (const id of books.ids(1)) {
      await books.seal(id, 0, (episode) => {
        const call = episode.calls[1];
        if (call) call.versionSpans = [{ ...span(0, 1, 0) }, { ...span(1, 3, 1) }];
      });
    }
    await books.manifest(1);
    await books.record(1);
    books.consume(1);
    expect(await audit()).toMatchObject({ ...NONE, trained: 8 });
  });
});
