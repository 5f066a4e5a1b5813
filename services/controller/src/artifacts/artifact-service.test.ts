// SPDX-License-Identifier: Apache-2.0
// ArtifactService over gRPC, on a folder of its own: what is pushed is there whole or not at all.
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { artifactDigest, WhetstoneError } from "@whetstone/core";
import { ArtifactKind, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import { createClient, type RpcClient, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { canMountVolumes, smallVolume } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { artifactService } from "./artifact-service.ts";
import { Artifacts } from "./artifacts.ts";

type Files = Record<string, string>;

let data: string;
let server: RpcServer;
let client: RpcClient<typeof ArtifactService>;

async function serve(folder: string): Promise<void> {
  const artifacts = new Artifacts(folder, () => Promise.resolve(new Map()));
  const services = [artifactService(artifacts)];
  server = await startServer({ host: "127.0.0.1", port: 0, services, logger: silentLogger });
  client = createClient(ArtifactService, server.address);
}
async function stop(): Promise<void> {
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
}
beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), "whetstone-artifacts-"));
  await serve(data);
});
afterEach(async () => {
  await stop();
  rmSync(data, { recursive: true, force: true });
});

const sha = (text: string): string => createHash("sha256").update(text).digest("hex");
const filesOf = (files: Files) =>
  Object.entries(files).map(([path, text]) => ({ path, size: BigInt(Buffer.byteLength(text)), sha256: sha(text) }));
const digestOf = (files: Files): string => artifactDigest(filesOf(files));
const named = (name: string, replace = false) => ({ kind: ArtifactKind.TASKS, name, replace });
const begin = (files: Files, name = "t", replace = false) =>
  client.beginPush({ ...named(name, replace), files: filesOf(files) });
const write = (files: Files, path: string, offset: number, text: string) =>
  client.writeChunk({ digest: digestOf(files), path, offset: BigInt(offset), content: Buffer.from(text) });

async function finish(digest: string, name = "t", replace = false) {
  const said = await Array.fromAsync(client.finishPush({ ...named(name, replace), digest }));
  return said.at(-1)?.artifact;
}

async function push(files: Files, name = "t", replace = false) {
  const { digest, offsets, complete } = await begin(files, name, replace);
  if (!complete)
    for (const [i, [path, text]] of Object.entries(files).entries())
      if (text.length > Number(offsets[i]))
        await write(files, path, Number(offsets[i]), text.slice(Number(offsets[i])));
  return await finish(digest, name, replace);
}

async function read(digest: string, path: string, offset = 0): Promise<string> {
  const chunks = await Array.fromAsync(client.readFile({ digest, path, offset: BigInt(offset) }));
  return Buffer.concat(chunks.map(({ content }) => content)).toString();
}

async function failure(work: Promise<unknown>): Promise<WhetstoneError> {
  return await work.then(
    () => expect.fail("it was taken"),
    (error: unknown) => WhetstoneError.from(error),
  );
}

const names = async () => (await client.listArtifacts({ kind: ArtifactKind.TASKS })).artifacts.map(({ name }) => name);
const content = (): string[] =>
  existsSync(join(data, "artifacts/sha256")) ? readdirSync(join(data, "artifacts/sha256")) : [];
const pushes = (): string[] => readdirSync(join(data, "artifacts/pushes"));

const TREE: Files = { "a.txt": "alpha", "deep/er/b.txt": "beta", empty: "" };

describe("a push", () => {
  it("is read again as it was, under its name and its digest", async () => {
    const artifact = await push(TREE);
    expect(artifact).toMatchObject({ name: "t", digest: digestOf(TREE), size: 9n });
    expect(await names()).toEqual(["t"]);
    const { artifact: byDigest } = await client.getArtifact({ of: { case: "digest", value: digestOf(TREE) } });
    expect(byDigest?.files.map(({ path }) => path)).toEqual(["a.txt", "deep/er/b.txt", "empty"]);
    for (const [path, text] of Object.entries(TREE)) expect(await read(digestOf(TREE), path)).toBe(text);
    expect(await read(digestOf(TREE), "a.txt", 2)).toBe("pha");
    expect(pushes()).toEqual([]);
  });

  it("goes on after the controller was replaced in the middle of a file", async () => {
    await begin(TREE);
    await write(TREE, "deep/er/b.txt", 0, "be");
    await stop();
    await serve(data); // Nothing but the folder is left of the first.
    expect(content()).toEqual([]);
    expect((await begin(TREE)).offsets).toEqual([0n, 2n, 0n]);
    expect((await failure(finish(digestOf(TREE)))).message).toMatch(/"a.txt" has 0 of its 5 bytes/);
    await push(TREE);
    expect(await read(digestOf(TREE), "deep/er/b.txt")).toBe("beta");
  });

  it("takes a chunk once, wherever its answer was lost", async () => {
    await begin(TREE);
    expect(await write(TREE, "a.txt", 0, "alp")).toMatchObject({ offset: 3n });
    expect(await write(TREE, "a.txt", 0, "alp")).toMatchObject({ offset: 3n });
    expect(await write(TREE, "a.txt", 4, "a")).toMatchObject({ offset: 3n });
    await push(TREE);
    expect(await read(digestOf(TREE), "a.txt")).toBe("alpha");
  });

  it("of other bytes than were announced never becomes visible, and can be made good", async () => {
    await begin(TREE);
    await write(TREE, "a.txt", 0, "alphA");
    await write(TREE, "deep/er/b.txt", 0, "beta");
    const error = await failure(finish(digestOf(TREE)));
    expect(error).toMatchObject({ code: "DATA_LOSS", message: expect.stringContaining('"a.txt"') as string });
    expect([content(), await names()]).toEqual([[], []]);
    expect((await begin(TREE)).offsets).toEqual([0n, 4n, 0n]);
    await push(TREE);
    expect(await names()).toEqual(["t"]);
  });

  it("is not sent again when the store has it", async () => {
    await push(TREE);
    expect(await begin(TREE, "again")).toMatchObject({ complete: true });
    expect(await push(TREE, "again")).toMatchObject({ name: "again" });
    expect(content()).toEqual([digestOf(TREE)]);
  });

  it("that is aborted leaves nothing, and its next chunk is told so", async () => {
    await begin(TREE);
    await write(TREE, "a.txt", 0, "alp");
    await client.abortPush({ digest: digestOf(TREE) });
    await client.abortPush({ digest: digestOf(TREE) });
    expect([pushes(), readdirSync(join(data, "artifacts/removed"))]).toEqual([[], []]);
    expect(await failure(write(TREE, "a.txt", 3, "ha"))).toMatchObject({ code: "NOT_FOUND" });
  });

  it("that nobody went on with for a day is swept by the next", async () => {
    await begin(TREE);
    await write(TREE, "a.txt", 0, "alp");
    const old = Date.now() / 1000 - 25 * 3600;
    utimesSync(join(data, "artifacts/pushes", digestOf(TREE), "manifest.json"), old, old);
    await begin({ other: "x" });
    expect(pushes()).toEqual([digestOf({ other: "x" })]);
  });

  it.each(["../x", "/etc/passwd", "a/../../x", "a\\b", "a//b", "", "a\0b", "."])(
    "with the path %j is refused before anything is written",
    async (path) => {
      const error = await failure(begin({ [path]: "x" }));
      expect(error).toMatchObject({ code: "INVALID_ARGUMENT", message: expect.stringContaining("files[0]") as string });
      expect(existsSync(join(data, "artifacts/pushes"))).toBe(false);
    },
  );

  it("with a file that is a folder too, or is there twice, is refused", async () => {
    expect((await failure(begin({ a: "x", "a/b": "y" }))).message).toMatch(/files\[1\].*"a" is a file, and a folder/);
    const twice = [...filesOf({ a: "x" }), ...filesOf({ a: "y" })];
    expect((await failure(client.beginPush({ ...named("t"), files: twice }))).message).toMatch(/"a" is there twice/);
  });

  it("writes only files that it announced, and no more of them", async () => {
    await begin(TREE);
    expect((await failure(write(TREE, "../a.txt", 0, "x"))).message).toMatch(/is no file of this push/);
    expect((await failure(write(TREE, "a.txt", 0, "alphabet"))).message).toMatch(/longer than its 5 bytes/);
    const { message } = await failure(write(TREE, "a.txt", 0, "x".repeat(8 * 1024 * 1024 + 1)));
    expect(message).toMatch(/content: .*at most 8388608 bytes/);
    expect((await failure(client.abortPush({ digest: "../.." }))).code).toBe("INVALID_ARGUMENT");
  });

  it.each([
    [ArtifactKind.MODELS, /no config.json: not a model/],
    [ArtifactKind.DATASETS, /no file \*.jsonl/],
    [ArtifactKind.UNSPECIFIED, /kind/],
  ])("of the kind %i that it is not is refused", async (kind, message) => {
    const files = filesOf(TREE);
    expect((await failure(client.beginPush({ kind, name: "m", files }))).message).toMatch(message);
  });

  it.each(["", "..", "a/b", ".hidden", "x".repeat(101)])("under the name %j is refused", async (name) => {
    expect((await failure(begin(TREE, name))).message).toMatch(/name/);
  });
});

describe("reading", () => {
  it("is of files that the artifact has, and of nothing else on the disk", async () => {
    await push(TREE);
    for (const path of ["../manifest.json", "/etc/passwd", "none"])
      expect((await failure(read(digestOf(TREE), path))).message).toMatch(/has no file/);
    expect((await failure(read(sha("none"), "a.txt"))).code).toBe("NOT_FOUND");
  });
});

describe("a name", () => {
  const next = { "a.txt": "next" };

  it("moves only when told to, before anything is sent, and its former files go", async () => {
    await push(TREE);
    expect(await failure(begin(next))).toMatchObject({ code: "ALREADY_EXISTS" });
    await push(next, "t", true);
    expect(content()).toEqual([digestOf(next)]);
  });

  it("is given to one of two pushes that were begun before it was there, and the other is told", async () => {
    const both = [TREE, next];
    for (const files of both) await begin(files);
    for (const files of both)
      for (const [path, text] of Object.entries(files)) if (text !== "") await write(files, path, 0, text);
    const ends = await Promise.allSettled(both.map((files) => finish(digestOf(files))));
    const refused = ends.flatMap((end) => (end.status === "rejected" ? [WhetstoneError.from(end.reason)] : []));
    expect(refused).toMatchObject([{ code: "ALREADY_EXISTS" }]);
    const { artifacts } = await client.listArtifacts({ kind: ArtifactKind.TASKS });
    expect(artifacts).toMatchObject([{ name: "t" }]);
    expect(content()).toEqual(artifacts.map(({ digest }) => digest)); // The other's files are gone.
    expect(pushes()).toEqual([]);
  });
});

describe.skipIf(!canMountVolumes())("a full volume", () => {
  it("is told of before a byte is sent, or leaves nothing half-written", async () => {
    using volume = smallVolume(4);
    await stop();
    await serve(volume.path);
    const large = { big: "x".repeat(8 * 1024 * 1024) };
    expect((await failure(begin(large))).message).toMatch(/has 4 MiB free.*8 MiB are needed.*rm/);
    const fits = { one: "x".repeat(1024 * 1024) };
    await begin(fits);
    volume.fill();
    const error = await failure(write(fits, "one", 0, fits.one));
    expect(error).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/nothing of the push/) as string,
    });
    expect(readdirSync(join(volume.path, "artifacts/pushes"))).toEqual([]);
  });
});
