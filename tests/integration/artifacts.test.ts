// SPDX-License-Identifier: Apache-2.0
// `whet … push|pull|ls|rm` against the real ArtifactService, over a connection that breaks; and an env-runner that fetches
// from it what its sessions name.
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { type FakeTerminal, fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { artifactService } from "../../services/controller/src/artifacts/artifact-service.ts";
import { Artifacts } from "../../services/controller/src/artifacts/artifacts.ts";
import { startApp } from "../../services/env-runner/src/app.ts";
import { ConfigSchema } from "../../services/env-runner/src/config.ts";
import { WHET } from "../support/whet.ts";

let folder: string;
let data: string;
let server: RpcServer;
let line: Line;
let terminal: FakeTerminal;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "whet-artifacts-"));
  data = join(folder, "data");
  mkdirSync(data);
  const services = [artifactService(new Artifacts(data, () => Promise.resolve(new Map())))];
  server = await startServer({ host: "127.0.0.1", port: 0, services, logger: silentLogger });
  line = await openLine(server.port);
  terminal = fakeTerminal();
});
afterEach(async () => {
  line.close();
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

interface Line {
  readonly port: number;
  /** Cuts every connection once so many bytes have gone to the controller, as often as given. */
  cutAfter(bytes: number, times: number): void;
  readonly cuts: number;
  /** Bytes that went to the controller. */
  sent: number;
  onSent: (bytes: number) => void;
  close(): void;
}

/** A connection to the controller that can be cut. */
async function openLine(port: number): Promise<Line> {
  const sockets = new Set<Socket>();
  const state = { left: Infinity, bytes: Infinity, times: 0, cuts: 0, sent: 0, onSent: (_: number) => {} };
  const tcp: Server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => (near.destroy(), far.destroy(), sockets.delete(socket)));
    }
    far.pipe(near);
    near.on("data", (chunk) => {
      state.sent += chunk.length;
      state.onSent(state.sent);
      state.left -= chunk.length;
      if (state.left > 0) return void far.write(chunk);
      state.cuts += 1;
      state.left = --state.times > 0 ? state.bytes : Infinity;
      near.destroy();
    });
  });
  await new Promise<void>((resolve) => tcp.listen(0, "127.0.0.1", resolve));
  return Object.assign(state, {
    port: (tcp.address() as { port: number }).port,
    cutAfter: (bytes: number, times: number) => Object.assign(state, { left: bytes, bytes, times }),
    close: () => (sockets.forEach((socket) => socket.destroy()), tcp.close()),
  });
}

async function whet(argv: string[], signal = new AbortController().signal): Promise<number> {
  const environment = {
    WHETSTONE_ENDPOINT: `127.0.0.1:${line.port}`,
    WHETSTONE_DATASETS: join(folder, "registry"),
    WHETSTONE_DATA: join(folder, "nowhere"),
  };
  return runCommand(argv, { terminal, environment, signal, force: new AbortController().signal });
}
async function json(...argv: string[]): Promise<Record<string, unknown>> {
  expect(await whet([...argv, "--json"]), terminal.err.join("\n")).toBe(0);
  return terminal.documents.at(-1) as Record<string, unknown>;
}

const MIB = 1024 * 1024;
function modelFolder(weights = Buffer.alloc(6 * MIB, "w")): string {
  const path = join(folder, "model");
  mkdirSync(join(path, "extra"), { recursive: true });
  writeFileSync(join(path, "config.json"), "{}");
  writeFileSync(join(path, "tokenizer.json"), "{}");
  writeFileSync(join(path, "extra/empty"), "");
  writeFileSync(join(folder, "blob"), weights);
  if (!existsSync(join(path, "model.safetensors"))) symlinkSync(join(folder, "blob"), join(path, "model.safetensors"));
  return path;
}
const treeOf = (path: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((file) => [file.slice(path.length), createHash("sha256").update(readFileSync(file)).digest("hex")]),
  );
const leftOnDisk = (): string[] =>
  existsSync(join(data, "artifacts/pushes")) ? readdirSync(join(data, "artifacts/pushes")) : [];

describe("whet models", () => {
  it("pushes a folder, lists it, pulls it back the same, and removes it", async () => {
    const pushed = await json("models", "push", "tiny", modelFolder());
    expect(pushed).toMatchObject({ name: "tiny", sent: 6 * MIB + 4 });
    expect(pushed["reference"]).toBe(`artifact://models/tiny@sha256:${pushed["digest"] as string}`);
    expect(await json("models", "push", "tiny", modelFolder())).toMatchObject({ sent: 0 });
    expect(await json("models", "ls")).toMatchObject({ models: [{ name: "tiny", size: 6 * MIB + 4 }] });
    await json("models", "pull", "tiny", join(folder, "back"));
    expect(treeOf(join(folder, "back"))).toEqual(treeOf(modelFolder()));
    expect(await whet(["models", "pull", "tiny", join(folder, "back")])).toBe(2);
    expect(terminal.err.join()).toMatch(/back: exists already/);
    expect(await json("models", "rm", "tiny")).toMatchObject({ freed: 6 * MIB + 4 });
    expect(await whet(["models", "ls"])).toBe(0);
    expect(terminal.out.join("\n")).toContain("whet models push");
  });

  it("goes on over a connection that breaks again and again", async () => {
    line.cutAfter(1.5 * MIB, 3);
    await json("models", "push", "tiny", modelFolder());
    expect(line.cuts).toBe(3);
    await json("models", "pull", "tiny", join(folder, "back"));
    expect(treeOf(join(folder, "back"))).toEqual(treeOf(modelFolder()));
  });

  it("goes on with the same command where the first was killed", async () => {
    const environment = { ...process.env, WHETSTONE_ENDPOINT: `127.0.0.1:${line.port}` };
    const child = spawn(process.execPath, [WHET, "models", "push", "tiny", modelFolder()], { env: environment });
    line.onSent = (bytes) => bytes > 3 * MIB && child.kill("SIGKILL");
    await once(child, "exit");
    expect(leftOnDisk()).toHaveLength(1);
    const { sent } = (await json("models", "push", "tiny", modelFolder())) as { sent: number };
    expect(sent).toBeLessThan(5 * MIB);
  });

  it("takes back what it sent when it is interrupted", async () => {
    const interrupt = new AbortController();
    line.onSent = (bytes) => bytes > 3 * MIB && interrupt.abort();
    expect(await whet(["models", "push", "tiny", modelFolder()], interrupt.signal)).toBe(1);
    expect(terminal.err.join()).toMatch(/stopped; nothing of it was kept/);
    expect(leftOnDisk()).toEqual([]);
    expect(await json("models", "ls")).toEqual({ models: [] });
  });

  it("refuses what is no model, and another model under the same name, before anything is sent", async () => {
    mkdirSync(join(folder, "none"));
    writeFileSync(join(folder, "none/readme"), "x");
    expect(await whet(["models", "push", "m", join(folder, "none")])).toBe(2);
    expect(terminal.err.join()).toMatch(/no config.json: not a model/);
    await json("models", "push", "tiny", modelFolder());
    const before = line.sent;
    const other = modelFolder(Buffer.alloc(6 * MIB, "o"));
    expect(await whet(["models", "push", "tiny", other])).toBe(2);
    expect(terminal.err.join()).toMatch(/--replace/);
    expect(line.sent - before).toBeLessThan(0.1 * MIB);
    expect(await json("models", "push", "tiny", other, "--replace")).toMatchObject({ sent: 6 * MIB + 4 });
  });
});

describe("whet datasets", () => {
  it("pushes a registered data set with its splits, a file of rows, and says what there is", async () => {
    const rows = join(folder, "sums.csv");
    writeFileSync(rows, "id,question,answer\na,1+1,2\nb,2+2,4\n");
    for (const split of ["train", "test"]) await json("datasets", "add", "sums", rows, "--split", split);
    await json("datasets", "push", "sums");
    await json("datasets", "push", "more", rows, "--split", "train");
    expect(await json("datasets", "ls", "--remote")).toMatchObject({ datasets: [{ name: "more" }, { name: "sums" }] });
    await json("datasets", "pull", "sums", join(folder, "sums"));
    expect(readdirSync(join(folder, "sums")).toSorted()).toEqual(["test.jsonl", "train.jsonl"]);
    expect(readFileSync(join(folder, "sums/train.jsonl"), "utf8")).toContain('"question":"1+1"');
    await json("datasets", "rm", "sums", "--remote");
    expect(await json("datasets", "ls")).toMatchObject({ datasets: [{ name: "sums" }] });
    expect(await whet(["datasets", "push", "sums", "--split", "none"])).toBe(2);
    expect(terminal.err.join()).toMatch(/--split: sums has no split none/);
    expect(await whet(["datasets", "push", "more", rows, "--split", "../x"])).toBe(2);
    expect(await whet(["datasets", "push", "more", join(folder, "absent.csv")])).toBe(2);
    expect(terminal.err.join()).toMatch(/absent.csv: does not exist/);
    expect(await whet(["datasets", "push", "none"])).toBe(1);
    expect(terminal.err.join()).toMatch(/no dataset none in .*registry/);
  });
});

describe("an env-runner", () => {
  const question = { question: "Where does the gull live?", answer: "harbour", tools: ["search"] };

  async function firstAnswer(cache: string, corpus: string, cacheBytes = MIB) {
    const artifactAddress = `127.0.0.1:${line.port}`;
    const settings = { grpcPort: 0, artifactAddress, artifactCachePath: cache, artifactCacheBytes: cacheBytes };
    await using app = await startApp(ConfigSchema.parse(settings), { logger: silentLogger });
    await using client = createClient(EnvironmentService, app.address);
    const requests = (async function* () {
      yield { kind: { case: "reset" as const, value: { kind: "tool", args: { ...question, corpus } } } };
      await new Promise((resolve) => setTimeout(resolve, 30_000).unref());
    })();
    for await (const answer of client.session(requests)) return answer.kind;
    throw new Error("no answer");
  }

  it("fetches a corpus by digest, once, and keeps it", async () => {
    const corpus = join(folder, "birds.jsonl");
    writeFileSync(corpus, '{"id":"1","text":"The gull lives at the harbour."}\n');
    const { reference } = (await json("tasks", "push", "birds", corpus)) as { reference: string };
    const cache = join(folder, "cache");
    expect(await firstAnswer(cache, `${reference}/birds.jsonl`)).toMatchObject({ case: "observation" });
    const [digest = ""] = readdirSync(cache);
    expect(reference).toContain(digest);
    expect(readFileSync(join(cache, digest, "birds.jsonl"), "utf8")).toBe(readFileSync(corpus, "utf8"));
    await json("tasks", "rm", "birds");
    expect(await firstAnswer(cache, `${reference}/birds.jsonl`)).toMatchObject({ case: "observation" });
  });

  it("says which argument names what is not there, has no digest, or has no room", async () => {
    const corpus = join(folder, "birds.jsonl");
    writeFileSync(corpus, '{"id":"1","text":"The gull lives at the harbour."}\n');
    const { reference } = (await json("tasks", "push", "birds", corpus)) as { reference: string };
    const cache = join(folder, "cache");
    const failure = async (text: string, bytes?: number) =>
      (await firstAnswer(cache, text, bytes)) as { value: object };
    expect((await failure("artifact://tasks/birds")).value).toMatchObject({ code: "TASK", field: "corpus" });
    expect((await failure(`${reference}/none`)).value).toMatchObject({ code: "TASK", field: "corpus" });
    expect((await failure(`${reference}/birds.jsonl`, 10)).value).toMatchObject({
      message: expect.stringContaining("WHETSTONE_ARTIFACT_CACHE_BYTES") as string,
    });
    expect(readdirSync(cache)).toEqual([]);
  });

  it("takes no file that is not as it was pushed, as a pull does not", async () => {
    const corpus = join(folder, "birds.jsonl");
    writeFileSync(corpus, '{"id":"1","text":"The gull lives at the harbour."}\n');
    const { reference, path } = (await json("tasks", "push", "birds", corpus)) as { reference: string; path: string };
    writeFileSync(join(path, "birds.jsonl"), '{"id":"1","text":"The gull lives in the woods.  "}\n');
    const answer = await firstAnswer(join(folder, "cache"), `${reference}/birds.jsonl`);
    expect(answer).toMatchObject({
      case: "error",
      value: { code: "ENVIRONMENT", message: expect.stringContaining("did not arrive") as string },
    });
    expect(await whet(["tasks", "pull", "birds", join(folder, "back")])).toBe(1);
    expect(terminal.err.join()).toMatch(/birds.jsonl did not arrive as it was sent/);
    expect(existsSync(join(folder, "back"))).toBe(false);
  });
});
