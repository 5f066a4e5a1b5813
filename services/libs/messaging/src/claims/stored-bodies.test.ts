// SPDX-License-Identifier: Apache-2.0
// Bodies of episodes in a real object store: what is read is what was published, and a store that fails is told as such.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Objm } from "@nats-io/obj";
import { WhetstoneError } from "@whetstone/core";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import {
  canMountVolumes,
  objectStoreProgram,
  type ObjectStoreServer,
  smallVolume,
  startNats,
  startObjectStore,
  type TestNats,
} from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  deleteJobStreams,
  ensureJobStreams,
  ensurePlatform,
  episodeStream,
  episodeSubject,
  followStoreTroubles,
  jobSize,
  type Nats,
  openStreams,
  type StoreTrouble,
  taskSubject,
  type TypedStreams,
} from "../index.ts";
import { CLAIMS_BUCKET } from "../topology.ts";
import { type Claim, CLAIM_HEADER, decodeClaim } from "./claim.ts";

const built = objectStoreProgram();
const skipped = "missing" in built ? built.missing : "";
const LONG = "x".repeat(700_000);

describe.skipIf(skipped !== "")(`bodies in an object store${skipped && ` (skipped: ${skipped})`}`, () => {
  const root = mkdtempSync(join(tmpdir(), "whetstone-bodies-"));
  let server: TestNats;
  let nats: Nats;
  let store: ObjectStoreServer;
  let streams: TypedStreams;
  let job: string;
  let count = 0;

  const opened = (url: string, env: NodeJS.ProcessEnv, more: { storeEpisodes?: boolean } = { storeEpisodes: true }) =>
    openStreams(nats, { store: { url, style: undefined, env: useKeys(env) }, ...more });

  /** The SDK looks for keys in the environment of the process. */
  function useKeys(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    Object.assign(process.env, env);
    return env;
  }

  beforeAll(async () => {
    server = await startNats();
    nats = await server.connect();
    await ensurePlatform(nats);
    store = await startObjectStore((built as { program: string }).program, root);
    streams = await opened(store.url, store.environment);
  });
  afterAll(async () => {
    await nats[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    store[Symbol.dispose]();
    rmSync(root, { recursive: true, force: true });
  });
  beforeEach(async () => {
    job = `stored-${(count += 1)}`;
    await ensureJobStreams(nats, job);
  });

  const episode = (sample: number, text = LONG) => ({ id: `${job}/g0/s${sample}`, job, failure: { message: text } });
  const publish = (sample: number, by = streams, options = {}) =>
    by.publish(episodeSubject(job, "g0", sample), EpisodeSchema, episode(sample), { firstOnSubject: true, ...options });
  const found = async (sample: number, by = streams) => {
    const message = await by.getLast(episodeStream(job), EpisodeSchema, episodeSubject(job, "g0", sample));
    return message ?? expect.fail("it is not in the stream");
  };
  const claimOf = async (sample: number): Promise<Claim> =>
    decodeClaim((await found(sample)).headers[CLAIM_HEADER] ?? "");
  const fileOf = async (sample: number): Promise<string> => store.file((await claimOf(sample)).name);
  const inBucket = async (): Promise<string[]> => {
    const entries = await (await new Objm(nats).open(CLAIMS_BUCKET)).list();
    return entries.filter(({ name }) => name.startsWith(`${job}/`)).map(({ name }) => name);
  };
  const failure = (work: Promise<unknown>): Promise<WhetstoneError> =>
    work.then(
      () => expect.fail("it was done"),
      (error: unknown) => WhetstoneError.from(error),
    );

  it("are read again, by those who put others into NATS, too", async () => {
    await publish(0);
    expect(await claimOf(0)).toMatchObject({
      store: "s3://bucket/team",
      name: expect.stringMatching(new RegExp(`^episodes/[-0-9TZ]+/${job}/[0-9a-f]{64}$`)) as string,
    });
    const inNats = await opened(store.url, store.environment, {});
    await publish(1, inNats);
    expect((await claimOf(1)).store).toBeUndefined();
    for (const by of [streams, inNats])
      for (const sample of [0, 1]) expect((await (await found(sample, by)).body()).failure?.message).toBe(LONG);
    // Of the first there is no body in NATS, only where it is.
    const [body] = (await inBucket()).filter((name) => !/\/stored\//.test(name));
    expect([body, (await inBucket()).length]).toEqual([(await claimOf(1)).name, 2]);
  });

  it("are those of episodes: a task stays in NATS", async () => {
    const task = { episodeId: `${job}/g0/s0`, job: LONG };
    await streams.publish(taskSubject(job), RolloutTaskSchema, task);
    expect(await inBucket()).toHaveLength(1);
    expect(await streams.claims.sizeInStore(job)).toEqual({ objects: 0, bytes: 0 });
  });

  it("a second publish changes nothing", async () => {
    await publish(0);
    expect(await publish(0)).toEqual({ sequence: 1, duplicate: true });
    expect(await streams.claims.sizeInStore(job)).toMatchObject({ objects: 1 });
  });

  it("a damaged one and one that is gone are data loss, by name", async () => {
    await publish(0);
    const [file, message] = [await fileOf(0), await found(0)];
    writeFileSync(file, readFileSync(file).fill("y", 10));
    expect(await failure(message.body())).toMatchObject({
      code: "DATA_LOSS",
      message: expect.stringMatching(/^claim s3:\/\/bucket\/team\/episodes\/.* holds another body/) as string,
    });
    rmSync(file);
    expect(await failure(message.body())).toMatchObject({
      code: "DATA_LOSS",
      message: expect.stringMatching(/is not in the object store$/) as string,
    });
  });

  it("a store that is away is said to be so, and takes and gives once it is back", async () => {
    await publish(0);
    const heard: StoreTrouble[] = [];
    using _following = followStoreTroubles(nats, (trouble) => heard.push(trouble));
    store.stop();
    const message = await found(0);
    for (const work of [() => publish(1), () => message.body()])
      expect(await failure(work())).toMatchObject({
        code: "UNAVAILABLE",
        retry: "later",
        message: expect.stringMatching(/^the object store fails: s3:\/\/bucket\/team\/episodes\//) as string,
      });
    await expect
      .poll(() => heard)
      .toEqual([{ isFull: false, message: expect.stringMatching(/^the object store fails/) as string }]);
    await store.start();
    expect(await publish(1)).toEqual({ sequence: 2, duplicate: false });
    await expect.poll(() => heard.slice(1)).toEqual([{ isFull: false, message: "" }]);
    for (const sample of [0, 1]) expect((await (await found(sample)).body()).failure?.message).toBe(LONG);
  });

  it("wrong keys and a bucket that is not there are told with the store's words", async () => {
    await publish(0);
    const strangers = await opened(store.url, { ...store.environment, AWS_SECRET_ACCESS_KEY: "guessed" });
    try {
      expect(await failure(publish(1, strangers))).toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringMatching(/SignatureDoesNotMatch|AccessDenied/) as string,
      });
    } finally {
      useKeys(store.environment);
    }
    const elsewhere = await opened("s3://missing/team", store.environment);
    expect(await failure(publish(1, elsewhere))).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/s3:\/\/missing\/team\/episodes\/.*NoSuchBucket/) as string,
    });
  });

  it("a process without the store, or with another one, says what it needs", async () => {
    await publish(0);
    const without = await openStreams(nats);
    const other = await opened("s3://bucket/other", store.environment);
    for (const [by, has] of [
      [without, "has no object store"],
      [other, "has s3://bucket/other"],
    ] as const) {
      const words = new RegExp(`${has}: set WHETSTONE_OBJECT_STORE to s3://bucket/team `);
      const message = await found(0, by);
      for (const work of [() => message.body(), () => by.claims.sizeInStore(job), () => by.claims.deleteFromStore(job)])
        expect(await failure(work())).toMatchObject({
          code: "FAILED_PRECONDITION",
          message: expect.stringMatching(words) as string,
        });
    }
    expect(await streams.claims.sizeInStore(job)).toMatchObject({ objects: 1 });
  });

  it("go with their job, those that no message names, too, and no other's", async () => {
    const former = job;
    await publish(0);
    await streams.claims.put({ job, isEpisode: true }, Buffer.from("nobody published it"));
    const file = await fileOf(0);
    job = `${former}-2`;
    await ensureJobStreams(nats, job);
    await publish(0);
    const [other, size] = [await fileOf(0), readFileSync(await fileOf(0)).length];
    expect(await streams.claims.sizeInStore(former)).toEqual({ objects: 2, bytes: readFileSync(file).length + 19 });

    // The streams alone: what tells of the rest stays.
    await deleteJobStreams(nats, former);
    await streams.claims.deleteFromStore(former);
    await streams.claims.deleteFromStore(former);
    expect(existsSync(file)).toBe(false);
    expect(await streams.claims.sizeInStore(former)).toEqual({ objects: 0, bytes: 0 });
    expect(await jobSize(nats, former)).toEqual({ episodes: 0, bytes: 0 });
    expect(existsSync(other)).toBe(true);
    expect(await streams.claims.sizeInStore(job)).toEqual({ objects: 1, bytes: size });
  });

  it("a deletion that fails is finished later, and bodies of a later job of the name are found again", async () => {
    await publish(0);
    const file = await fileOf(0);
    store.stop();
    expect(await failure(streams.claims.deleteFromStore(job))).toMatchObject({ code: "UNAVAILABLE" });
    await store.start();
    await streams.claims.deleteFromStore(job);
    expect(existsSync(file)).toBe(false);
    await deleteJobStreams(nats, job);
    expect(await inBucket()).toEqual([]);
    await ensureJobStreams(nats, job);
    await publish(0);
    expect(await streams.claims.sizeInStore(job)).toMatchObject({ objects: 1 });
  });

  it("more than a page of them are counted and deleted", async () => {
    await streams.claims.put({ job, isEpisode: true }, Buffer.from("0"));
    const folder = join(store.file("episodes"), readdirSync(store.file("episodes"))[0] ?? "", job);
    for (let one = 1; one < 1_200; one += 1) writeFileSync(join(folder, `body-${one}`), "0");
    expect(await streams.claims.sizeInStore(job)).toEqual({ objects: 1_200, bytes: 1_200 });
    await streams.claims.deleteFromStore(job);
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
  });

  it.skipIf(!canMountVolumes())(
    "a full store is told as a full stream is, and takes bodies once there is space",
    async () => {
      using volume = smallVolume(16);
      using full = await startObjectStore((built as { program: string }).program, join(volume.path, "objects"));
      const there = await opened(full.url, full.environment);
      try {
        await publish(0, there);
        volume.fill();
        expect(await failure(publish(1, there))).toMatchObject({
          code: "RESOURCE_EXHAUSTED",
          retry: "later",
          message: expect.stringMatching(
            /^no space left in the object store: s3:\/\/bucket\/team\/episodes\//,
          ) as string,
        });
        volume.free();
        await publish(1, there);
        expect((await (await found(1, there)).body()).failure?.message).toBe(LONG);
      } finally {
        useKeys(store.environment);
      }
    },
  );
});
