// SPDX-License-Identifier: Apache-2.0
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Nats } from "@whetstone/messaging";
import { episodeSubject } from "@whetstone/messaging";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { waitFor } from "@whetstone/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { AuditedBooks, NONE } from "../test-support/audited-books.ts";
import { JOB, type JobBooks, UID } from "../test-support/job-books.ts";
import type { AuditResult } from "./audit-facts.ts";
import { auditJob } from "./audit-reader.ts";

const given = new AuditedBooks();
let books: JobBooks;
let connection: Nats;
beforeEach(() => void ({ books, connection } = given));
const audit = (): Promise<AuditResult> => given.audit();

async function batchOf(step: number, change?: Parameters<typeof books.manifest>[1]): Promise<void> {
  await books.dispatch(step);
  for (const id of books.ids(step)) await books.seal(id, step);
  await books.manifest(step, change);
}

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
    await batchOf(1);
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
    await batchOf(1);
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

function span(start: number, end: number, version: number) {
  return { $typeName: "whetstone.types.v1.VersionSpan" as const, start, end, policyVersion: BigInt(version) };
}

describe("audit of falsified books", () => {
  const FIRST = `${JOB}/g0/s0`;

  /** Dispatches and seals step 0, the first episode falsified. */
  async function sealStep(change: Parameters<JobBooks["seal"]>[2], version = 0): Promise<void> {
    await books.dispatch(0);
    for (const id of books.ids(0)) await books.seal(id, version, id === FIRST ? change : undefined);
  }

  async function closeStep(): Promise<void> {
    await books.record(0);
    books.consume(0);
  }

  it.each<[string, () => Promise<void>, Partial<AuditResult>, string, string]>([
    [
      "an id that its batch forgot",
      async () => {
        await sealStep(undefined);
        await books.manifest(0, (manifest) => void manifest.entries.shift());
        await books.record(0);
        books.consume(0, undefined, 3);
      },
      { lost: 1 },
      FIRST,
      "neither trains nor voids",
    ],
    ["an id that is nowhere", async () => books.dispatch(0), { lost: 4 }, FIRST, "neither a task nor an episode"],
    [
      "an entry without a body",
      async () => {
        await books.dispatch(0);
        for (const id of books.ids(0)) if (id !== FIRST) await books.seal(id, 0);
        await books.manifest(
          0,
          (manifest) => void manifest.entries.push({ ...manifest.entries[0]!, episodeId: FIRST, sequence: 99n }),
        );
        await closeStep();
      },
      { lost: 1 },
      FIRST,
      "its body is not in the stream",
    ],
    [
      "a body that was swapped",
      async () => {
        await sealStep(undefined);
        await books.manifest(0, (manifest) => void (manifest.entries[0]!.digest = "0".repeat(64)));
        await closeStep();
      },
      { lost: 1 },
      FIRST,
      "digests differ",
    ],
    [
      "a sequence that is another's",
      async () => {
        await sealStep(undefined);
        await books.manifest(0, (manifest) => void (manifest.entries[0]!.sequence = 3n));
        await closeStep();
      },
      { lost: 1 },
      FIRST,
      "names sequence 3",
    ],
    [
      "a batch that the checkpoint never consumed",
      async () => {
        await sealStep(undefined);
        await books.manifest(0);
        await books.record(0);
        await batchOf(1);
        await books.record(1);
      },
      { lost: 4 },
      `${JOB} step 0`,
      "has not consumed",
    ],
    [
      "a batch that the checkpoint consumed otherwise",
      async () => {
        await sealStep(undefined);
        await books.manifest(0);
        await books.record(0);
        books.consume(0, "f".repeat(64));
      },
      { lost: 4 },
      `${JOB} step 0`,
      "another batch than the ledger's",
    ],
    [
      "a checkpoint that dropped another episode than the record says",
      async () => {
        await sealStep(undefined);
        await books.manifest(0);
        await books.record(0, undefined, [FIRST]);
        books.consume(0, undefined, 3, [`${JOB}/g0/s1`]);
      },
      { lost: 1 },
      `${JOB} step 0`,
      "name different episodes",
    ],
    [
      "a dropped episode that no batch lists",
      async () => {
        await sealStep(undefined);
        await books.manifest(0);
        await books.record(0, undefined, [`${JOB}/g9/s9`]);
      },
      { lost: 1 },
      `${JOB}/g9/s9`,
      "its batch does not list it",
    ],
    [
      "a record of another batch",
      async () => {
        await sealStep(undefined);
        await books.manifest(0);
        await books.record(0, "e".repeat(64));
        books.consume(0);
      },
      { lost: 4 },
      `${JOB} step 0`,
      "its record names another batch",
    ],
    [
      "an entry that was never dispatched",
      async () => {
        await sealStep(undefined);
        await books.seal(`${JOB}/g0/s9`, 0);
        await books.manifest(0, (manifest) => void manifest.entries.push(...books.entry(`${JOB}/g0/s9`)));
        await books.record(0);
        books.consume(0, undefined, 5);
      },
      { lost: 1 },
      `${JOB}/g0/s9`,
      "no record says it was dispatched",
    ],
    [
      "an id in two batches",
      async () => {
        await books.cleanStep(0);
        await batchOf(1, (manifest) => void manifest.entries.push(...books.entry(FIRST)));
        await books.record(1);
        books.consume(1, undefined, 5);
      },
      { duplicated: 1 },
      FIRST,
      "listed again in the batch of step 1",
    ],
    [
      "an id twice in one batch",
      async () => {
        await sealStep(undefined);
        await books.manifest(0, (manifest) => void manifest.entries.push(...books.entry(FIRST)));
        await books.record(0);
        books.consume(0, undefined, 5);
      },
      { duplicated: 1 },
      FIRST,
      "listed again in the batch of step 0",
    ],
    [
      "an id sealed twice",
      async () => {
        await sealStep(undefined);
        await sealAgain();
        await books.manifest(0);
        await closeStep();
      },
      { duplicated: 1 },
      FIRST,
      "sealed twice",
    ],
    [
      "a batch consumed twice",
      async () => {
        await books.cleanStep(0);
        books.consume(0);
      },
      { duplicated: 4 },
      `${JOB} step 0`,
      "consumed its batch twice",
    ],
    [
      "tokens that are too old",
      async () => {
        for (const step of [0, 1]) await books.cleanStep(step);
        await books.dispatch(2);
        for (const id of books.ids(2)) await books.seal(id, id === `${JOB}/g4/s1` ? 0 : 2);
        await books.manifest(2);
        await books.record(2);
        books.consume(2);
      },
      { stale: 6 },
      `${JOB}/g4/s1`,
      "sampled by version 0, trained in step 2",
    ],
    [
      "tokens of a version that did not exist",
      async () => {
        await sealStep((episode) => void (episode.calls[1]!.versionSpans = [span(0, 2, 0), span(2, 3, 7)]));
        await books.manifest(0);
        await closeStep();
      },
      { stale: 1 },
      FIRST,
      "call c1 token 2 was sampled by version 7",
    ],
    [
      "tokens without a version",
      async () => {
        await sealStep((episode) => void (episode.calls[0]!.versionSpans = [span(1, 2, 0)]));
        await books.manifest(0);
        await closeStep();
      },
      { unlabelled: 2 },
      FIRST,
      "2 sampled tokens have no version",
    ],
    [
      "tokens that two spans claim",
      async () => {
        await sealStep((episode) => void (episode.calls[1]!.versionSpans = [span(0, 2, 0), span(1, 3, 0)]));
        await books.manifest(0);
        await closeStep();
      },
      { unlabelled: 1 },
      FIRST,
      "1 sampled tokens have no version",
    ],
  ])("finds %s", async (...[, falsify, expected, subject, reason]) => {
    await falsify();
    const result = await audit();
    expect(result).toMatchObject({ ...NONE, ...expected });
    expect(result.violations[0]).toMatchObject({ kind: Object.keys(expected)[0], subject });
    expect(result.violations[0]?.reason).toContain(reason);
  });

  /** On another subject and outside the window of ids, so that the stream takes it. */
  async function sealAgain(): Promise<void> {
    const manager = await (await import("@nats-io/jetstream")).jetstreamManager(connection);
    const stream = `WS_EPISODE_${JOB}`;
    const count = async () => (await manager.streams.info(stream)).state.messages;
    const before = await count();
    let window = 100_000_000;
    // The server forgets an id some time after the window, and looks for such ids when the window changes.
    const sealed = async (): Promise<boolean> => {
      await manager.streams.update(stream, { duplicate_window: window++ });
      await books.seal(FIRST, 0, undefined, episodeSubject(JOB, "g0", 77));
      return (await count()) > before;
    };
    await waitFor(sealed, { timeoutMs: 15_000, intervalMs: 200 });
  }
});

it("refuses a job that does not exist", async () => {
  const asked = auditJob("nope", { connection, runsFolder: given.folder, signal: AbortSignal.timeout(5_000) });
  await expect(asked).rejects.toMatchObject({ code: "NOT_FOUND", context: { violations: [{ path: "nope" }] } });
});
