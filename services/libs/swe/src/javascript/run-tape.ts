// SPDX-License-Identifier: Apache-2.0
// Plays one file of tests of tape and says how each went, to the program that started it.
//
// R1: what the library or a test prints is never read as a result: records go to a descriptor of their own, and each begins with a
// token that was drawn before anything of the library was loaded. R2: a test is named with the number of its assertions, so that one
// whose assertions are not reached is another test, which nobody asked for.
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect as inspectValue } from "node:util";
import { fileURLToPath } from "node:url";
import { lockAll } from "./lock.ts";

interface Row {
  readonly type: "test" | "assert" | "end";
  readonly id?: number;
  readonly test?: number;
  readonly parent?: number;
  readonly name?: string;
  readonly ok?: boolean;
  readonly operator?: string;
  readonly expected?: unknown;
  readonly actual?: unknown;
  readonly error?: { readonly message?: string };
}

interface Played {
  readonly name: string;
  assertions: number;
  failure: string | undefined;
}

type Tape = { createStream(options: object): NodeJS.ReadableStream };

const MAX_MESSAGE = 300;
const MAX_VALUE = 100;

/** What is used after the library has been loaded is held from before: it may change what has a name. */
const { stringify } = JSON;
const { writeSync } = fs;
const exit = process.exit.bind(process);
const now = process.hrtime.bigint.bind(process.hrtime);

export function runTape(file: string, { descriptor, isWatched }: { descriptor: number; isWatched: boolean }): void {
  const token = randomBytes(16).toString("hex");
  writeSync(descriptor, `${token}\n`);
  const say = (record: object): void => {
    writeSync(descriptor, `${token}${stringify(record)}\n`);
  };
  const require = createRequire(join(process.cwd(), file));
  const tape = require("tape") as Tape;
  const stream = tape.createStream({ objectMode: true });
  const watch = isWatched ? watching() : undefined;
  const begin = now();
  const loaded = Object.values(require.cache).map((module) => module?.exports as unknown);
  lockAll([tape, ...loaded], [fs]);
  const results = new Results(file);
  stream.on("data", (row: unknown) => {
    results.add(row as Row);
  });
  process.on("uncaughtException", (error: unknown) => {
    results.tell(say);
    say({ crash: oneLine(String((error as Error | undefined)?.message ?? error)) });
    exit(1);
  });
  stream.on("end", () => {
    const ids = results.tell(say);
    const seconds = Number(now() - begin) / 1e9;
    if (watch !== undefined) watch(ids, seconds, say);
    say({ end: true });
    exit(0);
  });
  require(join(process.cwd(), file));
}

/** How the tests went, by the number that tape gives them. */
class Results {
  readonly #file: string;
  readonly #tests = new Map<number, Played>();
  readonly #names = new Map<string, number>();

  constructor(file: string) {
    this.#file = file;
  }

  add(row: Row): void {
    if (row.type === "test") this.#begin(row);
    if (row.type !== "assert") return;
    const test = this.#tests.get(row.test ?? -1);
    if (test === undefined) return;
    test.assertions += 1;
    if (row.ok !== true) test.failure ??= messageOf(row);
  }

  /** @returns the names */
  tell(say: (record: object) => void): string[] {
    return [...this.#tests.values()].map(({ name, assertions, failure }) => {
      const test = `${name} (${assertions})`;
      say({ test, result: failure === undefined ? "passed" : "failed", message: failure ?? "" });
      return test;
    });
  }

  #begin({ id = -1, parent, name = "" }: Row): void {
    const outer = this.#tests.get(parent ?? -1)?.name ?? `${this.#file}::`;
    const full = oneLine(parent === undefined ? `${outer}${name}` : `${outer} > ${name}`);
    const times = (this.#names.get(full) ?? 0) + 1;
    this.#names.set(full, times);
    this.#tests.set(id, { name: times === 1 ? full : `${full} #${times}`, assertions: 0, failure: undefined });
  }
}

function messageOf({ name = "", operator = "", expected, actual, error }: Row): string {
  const show = (value: unknown): string =>
    oneLine(inspectValue(value, { breakLength: Infinity, depth: 3 })).slice(0, MAX_VALUE);
  if (operator === "fail" || operator === "throws") return oneLine(error?.message ?? name);
  return oneLine(`${name}: ${operator}: expected ${show(expected)}, got ${show(actual)}`);
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/gu, " ").trim().slice(0, MAX_MESSAGE);
}

/** Which functions were called, by file and the line where they begin: of the whole file of tests. */
function watching(): (tests: string[], seconds: number, say: (record: object) => void) => void {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return (tests, seconds, say) => {
    session.post("Profiler.takePreciseCoverage", (_error, { result }) => {
      const touched = result.flatMap(({ url, functions }) => calledIn(url, functions));
      for (const test of tests) say({ test, touched, seconds, timing: false });
    });
  };
}

type Covered = { readonly functionName: string; readonly ranges: readonly { startOffset: number; count: number }[] };

function calledIn(url: string, functions: readonly Covered[]): [string, number][] {
  const prefix = `${process.cwd()}/`;
  if (!url.startsWith("file://")) return [];
  const path = fileURLToPath(url);
  if (!path.startsWith(prefix)) return [];
  const source = fs.readFileSync(path, "utf8");
  const lines = functions.flatMap(({ ranges: [range] }) =>
    range !== undefined && range.count > 0 ? [source.slice(0, range.startOffset).split("\n").length] : [],
  );
  return [...new Set(lines)].map((line) => [path.slice(prefix.length), line]);
}
