// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { dieWithUs, Gate } from "@whetstone/core";

const PROGRAM = fileURLToPath(new URL("./file-lines-reader.ts", import.meta.url));
/** A mount that answers nothing for so long is given up. */
const SILENCE_MS = 30_000;
const MIB = 1024 * 1024;
/** A task with a picture in it is shorter. */
const MAX_LINE_BYTES = 16 * MIB;
/** What is read is held in memory. */
const MAX_FILE_BYTES = 1024 * MIB;
/** Files read at a time: one on a mount that hangs holds a place until it is given up. */
const places = new Gate(4, { maxQueued: 64 });

/** A file that is not there, or that this process may not read. */
export class UnreadableFileError extends Error {
  override readonly name = "UnreadableFileError";
}

export interface LinesOptions {
  readonly silenceMs?: number;
  /** Writes the file that it is given to standard output. */
  readonly program?: string;
}

/**
 * Lines of an ordinary file, in UTF-8, read by a process of its own that ends when the reader leaves.
 * @throws UnreadableFileError, or an Error that begins with the path: no ordinary file, too long, or silent for too long.
 */
export async function* readLines(path: string, options: LinesOptions = {}): AsyncGenerator<string, void> {
  using _place = await places.acquire(AbortSignal.timeout(options.silenceMs ?? SILENCE_MS));
  const command = dieWithUs("KILL", process.execPath, options.program ?? PROGRAM, path);
  const child = spawn(command[0], command.slice(1), { env: {}, stdio: ["ignore", "pipe", "pipe"] });
  const silence = new Silence(child, options.silenceMs ?? SILENCE_MS);
  try {
    yield* splitLines(path, chunksOf(path, child, silence));
  } finally {
    silence[Symbol.dispose]();
    // One that hangs in the kernel dies when the mount answers; nobody waits for it.
    child.kill("SIGKILL");
    child.stdout.destroy();
    child.stderr.destroy();
    child.unref();
  }
}

/** Ends the child when it has said nothing for too long. */
class Silence implements Disposable {
  broken = false;
  readonly #timer: NodeJS.Timeout;

  constructor(child: ReturnType<typeof spawn>, ms: number) {
    this.#timer = setTimeout(() => {
      this.broken = true;
      child.kill("SIGKILL");
      child.stdout?.destroy();
    }, ms);
  }

  heard(): void {
    this.#timer.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

async function* chunksOf(path: string, child: ChildProcess, silence: Silence): AsyncGenerator<Buffer> {
  let said = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(0, 10_000)));
  const ended = once(child, "close").catch((error: unknown) => (said = JSON.stringify({ message: String(error) })));
  let bytes = 0;
  try {
    for await (const chunk of child.stdout ?? []) {
      silence.heard();
      bytes += (chunk as Buffer).length;
      if (bytes > MAX_FILE_BYTES) throw new Error(`${path}: more than ${MAX_FILE_BYTES / MIB} MiB`);
      yield chunk as Buffer;
    }
  } catch (error) {
    if (!silence.broken) throw error;
  }
  if (silence.broken) throw new Error(`${path}: could not be read: nothing came for too long; does its mount answer?`);
  await ended;
  if (said !== "") throw failureOf(path, said);
}

/** Node writes what it dies of as plain text. */
function failureOf(path: string, said: string): Error {
  if (!said.startsWith("{")) return new Error(`${path}: could not be read: ${said.slice(0, 500)}`);
  const { code, message = "" } = JSON.parse(said) as { code?: string; message?: string };
  if (code === "ENOENT" || code === "EACCES") return new UnreadableFileError(`${path}: ${message}`);
  return new Error(`${path}: ${message}`);
}

async function* splitLines(path: string, chunks: AsyncIterable<Buffer>): AsyncGenerator<string, void> {
  let parts: Buffer[] = [];
  let length = 0;
  let line = 1;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString();
      [parts, length, start] = [[], 0, end + 1];
      line++;
    }
    parts.push(chunk.subarray(start));
    length += chunk.length - start;
    if (length > MAX_LINE_BYTES) throw new Error(`${path}:${line}: longer than ${MAX_LINE_BYTES / MIB} MiB`);
  }
  if (length > 0) yield Buffer.concat(parts).toString();
}
