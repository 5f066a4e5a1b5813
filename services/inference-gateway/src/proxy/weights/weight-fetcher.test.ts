// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canMountVolumes, smallVolume } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { WeightFetcher } from "./weight-fetcher.ts";

const BLOCK = 1024;
const SHARD = "model.safetensors";
const root = mkdtempSync(join(tmpdir(), "whetstone-fetch-"));
const trainer = join(root, "trainer");
const { signal } = new AbortController();

/** What the server does wrong, and what it was asked for since the test began. */
let fault: (request: IncomingMessage, response: ServerResponse, bytes: Buffer) => boolean;
let sent: { bytes: number; ranges: string[] };
let server: Server;
let url: string;
let kept: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    const [begin = 0, last = 0] =
      /bytes=(\d+)-(\d+)/
        .exec(request.headers.range ?? "")
        ?.slice(1)
        .map(Number) ?? [];
    const path = join(trainer, request.url ?? "");
    const whole = statSync(path, { throwIfNoEntry: false })?.isFile() ? readFileSync(path) : undefined;
    if (!whole) return void response.writeHead(404).end("no such path");
    const bytes = whole.subarray(begin, last + 1);
    sent.ranges.push(`${request.url?.split("/").at(-1)} ${begin}-${last + 1}`);
    if (fault(request, response, bytes)) return;
    sent.bytes += bytes.length;
    const range = `bytes ${begin}-${begin + bytes.length - 1}/${whole.length}`;
    response.writeHead(206, { "content-range": range }).end(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(root, { recursive: true });
});
beforeEach(() => {
  fault = () => false;
  sent = { bytes: 0, ranges: [] };
  kept = mkdtempSync(join(root, "kept-"));
});

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const fetcher = (folder = kept): WeightFetcher => new WeightFetcher({ folder, tls: undefined, store: undefined });
const tensorOf = (blocks: string): Buffer =>
  Buffer.concat(blocks.split("").map((letter) => Buffer.alloc(BLOCK, letter)));

/** A published folder with one tensor of blocks that are named by letters. @returns the digest of its manifest */
function publish(version: string, blocks: string): string {
  const folder = join(trainer, version);
  mkdirSync(folder, { recursive: true });
  const tensor = tensorOf(blocks);
  const header = Buffer.from(
    JSON.stringify({ w: { dtype: "U8", shape: [tensor.length], data_offsets: [0, tensor.length] } }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const digests = blocks.split("").map((letter) => sha256(Buffer.alloc(BLOCK, letter)).slice(0, 32));
  const contents: Record<string, Buffer> = {
    "config.json": Buffer.from('{"of":"all versions"}'),
    "blocks.json": Buffer.from(JSON.stringify({ bytes: BLOCK, tensors: { w: digests } })),
    [SHARD]: Buffer.concat([length, header, tensor]),
  };
  for (const [name, bytes] of Object.entries(contents)) writeFileSync(join(folder, name), bytes);
  const files = Object.entries(contents).map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  const entry = { name: "w", file: SHARD, dtype: "U8", offset: 8 + header.length, size: tensor.length };
  const tensors = [{ ...entry, shape: [tensor.length], sha256: sha256(tensor) }];
  const manifest = Buffer.from(JSON.stringify({ format: "whetstone.weights/v1", version: 1, files, tensors }));
  writeFileSync(join(folder, "manifest.json"), manifest);
  return sha256(manifest);
}

const same = (folder: string, version: string): void =>
  expect(readFileSync(join(folder, SHARD)).equals(readFileSync(join(trainer, version, SHARD)))).toBe(true);

describe("a version that is fetched", () => {
  it("is whole, and of the next one only what differs is fetched", async () => {
    const fetching = fetcher();
    const blocks = "abcdefghijklmnopqrst";
    same(await fetching.fetch(`${url}/v1`, publish("v1", blocks), signal), "v1");
    const first = sent.bytes;
    expect(first).toBeGreaterThan(20 * BLOCK);
    const folder = await fetching.fetch(`${url}/v2`, publish("v2", blocks.replace("fg", "FG")), signal);
    same(folder, "v2");
    const second = sent.bytes - first;
    expect(second).toBeGreaterThan(2 * BLOCK);
    expect(second).toBeLessThan(5 * BLOCK);
    expect(fetching.counters).toMatchObject({ bytes: expect.toSatisfy((n: number) => n > first), resumed: 0 });
    // The third one takes the place of the first.
    await fetching.fetch(`${url}/v3`, publish("v3", blocks.replace("a", "A")), signal);
    expect(readdirSync(kept)).toHaveLength(2);
    expect(readdirSync(kept)).toContain(folder.split("/").at(-1));
  });

  it("is not fetched again where it is, by another process too, unless it is damaged there", async () => {
    const digest = publish("v1", "abcd");
    const folder = await fetcher().fetch(`${url}/v1`, digest, signal);
    const before = sent.ranges.length;
    expect(await fetcher().fetch(`${url}/v1`, digest, signal)).toBe(folder);
    expect(sent.ranges).toHaveLength(before);
    writeFileSync(join(folder, SHARD), "nonsense");
    same(await fetcher().fetch(`${url}/v1`, digest, signal), "v1");
  });

  it("is right where the version before it was damaged on this disk", async () => {
    const blocks = "abcdefgh";
    const folder = await fetcher().fetch(`${url}/v1`, publish("v1", blocks), signal);
    const bytes = readFileSync(join(folder, SHARD));
    bytes[bytes.length - 1] = 0;
    writeFileSync(join(folder, SHARD), bytes);
    same(await fetcher().fetch(`${url}/v2`, publish("v2", blocks.replace("a", "A")), signal), "v2");
  });

  it("goes on at its last byte when connections break, and while the trainer is busy", async () => {
    let [broken, busy] = [0, 0];
    fault = (request, response, bytes) => {
      if (busy < 2) {
        busy += 1;
        response.writeHead(503).end();
        return true;
      }
      if (broken > 2 || !request.url?.endsWith(SHARD)) return false;
      broken += 1;
      const [begin = "0"] = /\d+/.exec(request.headers.range ?? "") ?? [];
      response.writeHead(206, { "content-range": `bytes ${begin}-9999/9999`, "content-length": bytes.length });
      response.write(bytes.subarray(0, BLOCK), () => setTimeout(() => response.destroy(), 20));
      return true;
    };
    const fetching = fetcher();
    same(await fetching.fetch(`${url}/v1`, publish("v1", "abcdefgh"), signal), "v1");
    const asked = sent.ranges.filter((range) => range.startsWith(SHARD));
    expect(asked.map((range) => Number(/ (\d+)/.exec(range)?.[1]))).toEqual([0, BLOCK, 2 * BLOCK, 3 * BLOCK]);
    expect(fetching.counters.resumed).toBe(5);
  });

  it("is refused by file where a byte of it is wrong, and is whole once it is right", async () => {
    const digest = publish("v1", "abcd");
    fault = (request, response, bytes) => {
      if (!request.url?.endsWith(SHARD)) return false;
      const wrong = Buffer.from(bytes);
      wrong[wrong.length - 1] = 0;
      response.writeHead(206, { "content-range": `bytes 0-${bytes.length - 1}/${bytes.length}` }).end(wrong);
      return true;
    };
    await expect(fetcher().fetch(`${url}/v1`, digest, signal)).rejects.toThrow(
      `${SHARD}: content differs from the digest in manifest.json; ${url}/v1/${SHARD} is damaged`,
    );
    fault = () => false;
    sent = { bytes: 0, ranges: [] };
    same(await fetcher().fetch(`${url}/v1`, digest, signal), "v1");
    // What was whole the first time is still there.
    expect(sent.ranges.filter((range) => range.startsWith("config"))).toEqual([]);
  });

  it.each([
    ["another manifest", "v1", "0".repeat(64), /manifest.json: .* has digest [0-9a-f]{64}, expected 0{64}/],
    ["a version that is not there", "v9", "0".repeat(64), /manifest.json: .*\/v9 answered 404: no such path/],
  ])("is refused: %s", async (_what, version, digest, said) => {
    publish("v1", "abcd");
    await expect(fetcher().fetch(`${url}/${version}`, digest, signal)).rejects.toThrow(said);
  });

  it("is given up where nobody answers, or who waits for it leaves", async () => {
    const away = new WeightFetcher({ folder: kept, tls: undefined, store: undefined });
    await expect(away.fetch("http://127.0.0.1:9/v1", "0".repeat(64), signal)).rejects.toThrow(
      /broke off 6 times: .*; is it there\?/,
    );
    const digest = publish("v1", "abcd");
    fault = (request, response) => {
      if (request.url?.endsWith(SHARD)) response.writeHead(206, { "content-range": "bytes 0-99/9999" }).write("x");
      return request.url?.endsWith(SHARD) === true;
    };
    const leaves = new AbortController();
    const waiting = fetcher().fetch(`${url}/v1`, digest, leaves.signal);
    setTimeout(() => leaves.abort(), 200);
    await expect(waiting).rejects.toThrow(/abort/i);
  }, 30_000);

  it("is given up at its deadline, however steadily its bytes drip", async () => {
    const digest = publish("v1", "abcd");
    fault = (request, response) => {
      if (!request.url?.endsWith(SHARD)) return false;
      response.writeHead(206, { "content-range": "bytes 0-9999/9999" });
      const timer = setInterval(() => response.write("x"), 20);
      response.once("close", () => clearInterval(timer));
      return true;
    };
    const slow = new WeightFetcher({ folder: kept, tls: undefined, store: undefined, deadlineMs: 400 });
    await expect(slow.fetch(`${url}/v1`, digest, signal)).rejects.toThrow(
      /\/v1 did not give the version in time; \d+ bytes came; files that are whole stay/,
    );
  });

  it.skipIf(!canMountVolumes())("is refused with the folder and its space where the disk is full", async () => {
    using volume = smallVolume(4);
    const digest = publish("v1", "abcdefghij");
    volume.fill();
    const folder = join(volume.path, "kept");
    await expect(fetcher(folder).fetch(`${url}/v1`, digest, signal)).rejects.toThrow(
      /No space left on device: .*, where fetched weights are kept, has \d+\.\d MiB free/,
    );
    volume.free();
    same(await fetcher(folder).fetch(`${url}/v1`, digest, signal), "v1");
  });
});
