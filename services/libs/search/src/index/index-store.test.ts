// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestOf } from "./build-index.ts";
import { IndexStore } from "./index-store.ts";

const line = (id: number, text: string): string => `${JSON.stringify({ id: String(id), text })}\n`;

let root: string;
let folder: string;
let corpus: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "whetstone-store-"));
  folder = join(root, "indexes");
  corpus = join(root, "corpus.jsonl");
  writeFileSync(corpus, line(1, "tea is hot") + line(2, "milk is cold"));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

async function first(store: IndexStore, query: string): Promise<string | undefined> {
  return (await (await store.get(corpus)).search(query, 1))[0]?.document.id;
}

/** Of this process. */
function openFilesIn(path: string): string[] {
  const targets = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // The listing's own.
    }
  });
  return targets.filter((target) => target.startsWith(path));
}

/** Builds in a process of its own, and says what it found. */
function builder(): ChildProcess {
  const program = `
    import { IndexStore } from ${JSON.stringify(join(import.meta.dirname, "index-store.ts"))};
    await using store = new IndexStore({ folder: ${JSON.stringify(folder)} });
    const found = await (await store.get(${JSON.stringify(corpus)})).search("cold", 1);
    process.send(found[0].document.id);`;
  const path = join(root, `builder-${readdirSync(root).length}.mjs`);
  writeFileSync(path, program);
  return fork(path, { stdio: "inherit", execArgv: [] });
}

describe("the store of indexes", () => {
  it("builds an index once for a corpus' content, and another for other content", async () => {
    await using store = new IndexStore({ folder });
    expect(await Promise.all([first(store, "cold"), first(store, "tea")])).toEqual(["2", "1"]);
    expect(readdirSync(folder)).toEqual([await digestOf(corpus)]);
    writeFileSync(corpus, line(7, "cold water"));
    utimesSync(corpus, 1, 1);
    expect(await first(store, "cold")).toBe("7");
    expect(readdirSync(folder).length).toBe(2);
  });

  it.runIf(process.platform === "linux")("closes every index with it, also those that others pushed out", async () => {
    const store = new IndexStore({ folder });
    for (let i = 0; i < 10; i++) {
      const path = join(root, `corpus-${i}.jsonl`);
      writeFileSync(path, line(i, `tea number ${i}`));
      await store.get(path);
    }
    expect(openFilesIn(folder)).toHaveLength(10 * 4);
    await store[Symbol.asyncDispose]();
    expect(openFilesIn(folder)).toEqual([]);
  });

  it.each(["", "none.jsonl"])("refuses the corpus %j, which is no file, as a broken task", async (name) => {
    await using store = new IndexStore({ folder });
    const message = expect.stringContaining(join(root, name)) as string;
    await expect(store.get(join(root, name))).rejects.toMatchObject({ failureClass: "TASK", message });
  });

  it("tells of a damaged index by name, and builds it again", async () => {
    const told: string[] = [];
    const onDamage = (message: string): void => void told.push(message);
    await using once = new IndexStore({ folder, onDamage });
    await once.get(corpus);
    const path = join(folder, await digestOf(corpus));
    truncateSync(join(path, "postings.bin"), 3);
    await using again = new IndexStore({ folder, onDamage });
    expect(await first(again, "cold")).toBe("2");
    expect(told).toEqual([expect.stringContaining(`${path}: postings.bin has 3 bytes`)]);
    rmSync(join(path, "meta.json"));
    await using third = new IndexStore({ folder, onDamage });
    expect(await first(third, "cold")).toBe("2");
    expect(told[1]).toMatch(/its build was not finished/u);
  });

  it("takes over from a builder that was killed", async () => {
    const gone = fork(join(import.meta.dirname, "words.ts"), { stdio: "ignore", execArgv: [] });
    await once(gone, "exit");
    const digest = await digestOf(corpus);
    mkdirSync(join(folder, `${digest}.building-${gone.pid}`), { recursive: true });
    writeFileSync(join(folder, `${digest}.lock`), String(gone.pid));
    await using store = new IndexStore({ folder });
    expect(await first(store, "cold")).toBe("2");
    expect(readdirSync(folder)).toEqual([digest]);
  });

  it("waits for another process that builds, and reads what that one built", async () => {
    const text = Array.from({ length: 20_000 }, (_, i) => line(i, `passage ${i} of many`)).join("");
    writeFileSync(corpus, text + line(99_999, "the cold one"));
    const builders = Array.from({ length: 3 }, builder);
    const said = await Promise.all(builders.map(async (one) => (await once(one, "message"))[0] as string));
    for (const one of builders) if (one.exitCode === null) await once(one, "exit");
    expect(said).toEqual(["99999", "99999", "99999"]);
    expect(readdirSync(folder)).toEqual([await digestOf(corpus)]);
  }, 30_000);

  it("keeps nothing of a build that failed", async () => {
    writeFileSync(corpus, "nonsense");
    await using store = new IndexStore({ folder });
    await expect(store.get(corpus)).rejects.toThrow(/line 1/u);
    expect(readdirSync(folder)).toEqual([]);
    writeFileSync(corpus, line(3, "cold"));
    expect(await first(store, "cold")).toBe("3");
  });
});
