// SPDX-License-Identifier: Apache-2.0
import type { Nats } from "@whetstone/messaging";
import { episodeSubject } from "@whetstone/messaging";
import { waitFor } from "@whetstone/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { AuditedBooks, NONE } from "../test-support/audited-books.ts";
import { JOB, type JobBooks, span } from "../test-support/job-books.ts";
import type { AuditResult } from "./audit-facts.ts";
import { auditJob } from "./audit-reader.ts";

const given = new AuditedBooks();
let books: JobBooks;
let connection: Nats;
beforeEach(() => void ({ books, connection } = given));
const audit = (): Promise<AuditResult> => given.audit();

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
        await books.batch(1);
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
        await books.batch(1, (manifest) => void manifest.entries.push(...books.entry(FIRST)));
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
