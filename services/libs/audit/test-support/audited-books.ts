// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kvm } from "@nats-io/kv";
import type { Nats } from "@whetstone/messaging";
import { deleteJobStreams, ensurePlatform } from "@whetstone/messaging";
import type { TestNats } from "@whetstone/testkit";
import { startNats } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import type { AuditResult } from "../src/audit-facts.ts";
import { auditJob } from "../src/audit-reader.ts";
import { JOB, JobBooks } from "./job-books.ts";

/** Empty books before each test of a file, on a nats-server of the file's own. */
export class AuditedBooks {
  books!: JobBooks;
  connection!: Nats;
  #nats!: TestNats;
  folder!: string;

  constructor() {
    beforeAll(async () => {
      this.#nats = await startNats();
      this.connection = await this.#nats.connect();
    });
    beforeEach(async () => {
      this.folder = mkdtempSync(join(tmpdir(), "whet-audit-"));
      await ensurePlatform(this.connection);
      await deleteJobStreams(this.connection, JOB);
      for (const bucket of ["ws-jobs", "ws-ledger"]) await (await new Kvm(this.connection).create(bucket)).destroy();
      this.books = new JobBooks(this.connection, this.folder);
      await this.books.open();
    });
    afterEach(() => rmSync(this.folder, { recursive: true, force: true }));
    afterAll(async () => {
      await this.connection[Symbol.asyncDispose]();
      await this.#nats[Symbol.asyncDispose]();
    });
  }

  audit(more: Partial<Parameters<typeof auditJob>[1]> = {}): Promise<AuditResult> {
    const signal = AbortSignal.timeout(20_000);
    return auditJob(JOB, { connection: this.connection, runsFolder: this.folder, signal, lookAgainMs: 20, ...more });
  }
}

export const NONE = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0 };
