// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ensurePlatform, JOBS_BUCKET, type Nats, openKv, type TypedKv } from "@whetstone/messaging";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { JobPages } from "./job-pages.ts";

let server: TestNats;
let nats: Nats;
let kv: TypedKv<typeof JobSchema>;
let reads: string[];
let pages: JobPages;
beforeEach(async () => {
  server = await startNats();
  nats = await server.connect();
  await ensurePlatform(nats);
  kv = await openKv(nats, JOBS_BUCKET, JobSchema);
  reads = [];
  pages = new JobPages({
    get: (name) => {
      reads.push(name);
      return kv.get(name);
    },
    revisions: () => kv.revisions(),
  });
});
afterEach(async () => {
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const job = (name: string, second: number): Job =>
  create(JobSchema, {
    spec: { name },
    createdAt: { seconds: BigInt(second) },
    status: { phase: JobPhase.SUCCEEDED, message: "x".repeat(1000) },
  });

async function put(...jobs: readonly [name: string, second: number][]): Promise<void> {
  await Promise.all(jobs.map(([name, second]) => kv.put(name, job(name, second))));
}

const names = (jobs: readonly Job[]): string[] => jobs.map(({ spec }) => spec?.name ?? "");

/** Names of all pages, and how many each had. */
async function walk(size: number): Promise<{ all: string[]; sizes: number[] }> {
  const all: string[] = [];
  const sizes: number[] = [];
  let token = "";
  do {
    const page = await pages.page(size, token);
    all.push(...names(page.jobs));
    sizes.push(page.jobs.length);
    token = page.nextPageToken;
  } while (token !== "");
  return { all, sizes };
}

describe("JobPages", () => {
  it("is empty where there is no job, and where the last one was deleted", async () => {
    expect(await pages.page(10, "")).toEqual({ jobs: [], nextPageToken: "" });
    await put(["a", 1]);
    await kv.delete("a");
    expect(await pages.page(10, "")).toEqual({ jobs: [], nextPageToken: "" });
  });

  it("has the newest first, then by name, each once", async () => {
    await put(["a", 1], ["d", 3], ["b", 2], ["c", 3], ["e", 1]);
    expect(await walk(2)).toEqual({ all: ["c", "d", "b", "a", "e"], sizes: [2, 2, 1] });
    expect(await walk(5)).toEqual({ all: ["c", "d", "b", "a", "e"], sizes: [5] });
  });

  it("tells what has changed since, and a job that came again under its name in its new place", async () => {
    await put(["a", 1], ["b", 2], ["c", 3]);
    await pages.page(10, "");
    await kv.delete("b");
    await put(["a", 9]);
    await kv.put("c", { ...job("c", 3), generation: 7n });
    const { jobs } = await pages.page(10, "");
    expect(names(jobs)).toEqual(["a", "c"]);
    expect(jobs[1]?.generation).toBe(7n);
  });

  it("a page that follows is not shifted by jobs that come meanwhile", async () => {
    await put(["a", 1], ["b", 2], ["c", 3]);
    const { nextPageToken } = await pages.page(2, "");
    await put(["d", 4]);
    expect(names((await pages.page(2, nextPageToken)).jobs)).toEqual(["a"]);
  });

  it("refuses a token that is none", async () => {
    await expect(pages.page(2, "100")).rejects.toMatchObject({ violations: [{ path: "pageToken" }] });
  });

  it("reads a page's records, and those that changed, of a thousand", async () => {
    await put(...Array.from({ length: 1000 }, (_, i): [string, number] => [`job-${i}`, i]));
    const everyMs = await timed(async () => Promise.all((await kv.keys()).map((name) => kv.get(name))));
    const firstMs = await timed(() => pages.page(100, ""));
    expect(reads.length).toBe(1000);
    await put(["job-3", 3], ["job-700", 700]);
    reads = [];
    const pageMs = await timed(() => pages.page(100, ""));
    expect(reads.length).toBe(102);
    console.log(JSON.stringify({ jobs: 1000, everyRecordMs: everyMs, firstPageMs: firstMs, laterPageMs: pageMs }));
  });
});

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return Math.round(performance.now() - from);
}
