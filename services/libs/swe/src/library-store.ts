// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { parseOrThrow, WhetstoneError } from "@whetstone/core";
import type { PreparedState, SandboxBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import type { Texts } from "./edits.ts";
import { LibraryRecordSchema, type LibraryRecord, RECORD_FILE, REPO, SITE, STATE_FILE, TOOL } from "./library.ts";
import { isSource } from "./source-change.ts";

/** A library that sandboxes can begin with. */
export interface OpenedLibrary {
  readonly record: LibraryRecord;
  readonly state: PreparedState;
  /** Its own code as it was published. */
  readonly sources: Texts;
}

const UNPACK_MS = 60_000;
const run = promisify(execFile);

/** The libraries of one folder. Each is prepared when the first episode needs it, and kept. */
export class LibraryStore implements AsyncDisposable {
  readonly #folder: string;
  readonly #backend: SandboxBackend;
  readonly #opened = new Map<string, Promise<OpenedLibrary>>();

  constructor(folder: string, backend: SandboxBackend) {
    this.#folder = folder;
    this.#backend = backend;
  }

  /** @throws EpisodeError INFRASTRUCTURE that says what to do, and tries anew the next time. */
  async open(name: string): Promise<OpenedLibrary> {
    const opening = this.#opened.get(name) ?? this.#open(name);
    this.#opened.set(name, opening);
    try {
      return await opening;
    } catch (error) {
      this.#opened.delete(name);
      throw missing(join(this.#folder, name), error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const opened = await Promise.allSettled(this.#opened.values());
    for (const each of opened) if (each.status === "fulfilled") await each.value.state[Symbol.asyncDispose]();
  }

  async #open(name: string): Promise<OpenedLibrary> {
    const folder = join(this.#folder, name);
    const record = await readRecord(folder);
    return { record, ...(await prepareState(this.#backend, join(folder, STATE_FILE), record.suite)) };
  }
}

export async function readRecord(folder: string): Promise<LibraryRecord> {
  const json: unknown = JSON.parse(await readFile(join(folder, RECORD_FILE), "utf8"));
  return parseOrThrow(LibraryRecordSchema, json, RECORD_FILE);
}

/** Unpacks an archive of ours. */
export async function prepareState(
  backend: SandboxBackend,
  archive: string,
  suite: LibraryRecord["suite"],
): Promise<Omit<OpenedLibrary, "record">> {
  const folder = await mkdtemp(join(tmpdir(), "whetstone-swe-"));
  try {
    const args = ["--extract", "--no-same-owner", "--file", archive, "--directory", folder];
    await run("tar", args, { timeout: UNPACK_MS });
    await compile(folder);
    const sources = await readSources(join(folder, REPO), suite);
    return { state: await backend.prepare(folder), sources };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** What tests import, not the library: every command that starts Python would compile pytest again. */
async function compile(folder: string): Promise<void> {
  const places = ["-s", folder, "-p", "/workspace", join(folder, SITE), join(folder, TOOL)];
  const options = { timeout: UNPACK_MS, env: { PATH: "/usr/local/bin:/usr/bin:/bin" } };
  // Some packages hold files for other versions of Python, which do not compile.
  await run("python3", ["-m", "compileall", "-q", ...places], options).catch(() => undefined);
}

async function readSources(repo: string, suite: LibraryRecord["suite"]): Promise<Texts> {
  const paths = await readdir(repo, { recursive: true });
  const sources = paths.filter((path) => isSource(path, suite)).sort();
  return new Map(
    await Promise.all(sources.map(async (path) => [path, await readFile(join(repo, path), "utf8")] as const)),
  );
}

function missing(folder: string, cause: unknown): EpisodeError {
  const why = WhetstoneError.from(cause).message;
  const what = `the library in ${folder} cannot be used: ${why}; make it with \`whet tasks make swe\``;
  return new EpisodeError("INFRASTRUCTURE", what, { cause });
}
