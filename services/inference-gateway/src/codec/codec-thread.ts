// SPDX-License-Identifier: Apache-2.0
import { Worker } from "node:worker_threads";
import { ApiError } from "../completion/api-error.ts";
import type { CodecFiles } from "./codec-files.ts";
import type { ThreadResult, ThreadTask } from "./codec-thread-main.ts";

const ENTRY = new URL("./codec-thread-main.ts", import.meta.url);
/** Long texts that may wait for one policy's thread; one more is answered 429. */
const MAX_QUEUED = 256;
/** A thread holds a tokenizer of its own, so it ends when it has had nothing to do for so long. */
const IDLE_MS = 60_000;

interface Waiting {
  readonly task: ThreadTask;
  readonly resolve: (result: ThreadResult) => void;
}

/** A thread with a codec of its own, started when it is first needed. Tasks are worked on one by one, in order. */
export class CodecThread implements AsyncDisposable {
  readonly #files: CodecFiles;
  /** The threads of one gateway that run. */
  readonly #running: Set<CodecThread>;
  readonly #queue: Waiting[] = [];
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(files: CodecFiles, running: Set<CodecThread>) {
    this.#files = files;
    this.#running = running;
  }

  /** @throws ApiError 429 when too many texts wait, what the codec throws, or 500 when the thread failed. */
  async run(task: ThreadTask): Promise<ThreadResult> {
    if (this.#queue.length >= MAX_QUEUED) throw tooManyTexts(this.#queue.length);
    const { promise, resolve } = Promise.withResolvers<ThreadResult>();
    this.#queue.push({ task, resolve });
    if (this.#queue.length === 1) this.#next();
    const result = await promise;
    if ("refused" in result) {
      const { code, reason, message, param } = result.refused;
      throw new ApiError(code, reason, message, { param });
    }
    if ("failed" in result) throw new Error(`the thread for long texts: ${result.failed}`);
    return result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop("the gateway closes");
  }

  /** The first of the queue is the one that is worked on. */
  #next(): void {
    clearTimeout(this.#idle);
    const first = this.#queue[0];
    if (first === undefined) {
      this.#idle = setTimeout(() => void this.#stop("idle"), IDLE_MS).unref();
      return;
    }
    this.#worker ??= this.#start();
    this.#worker.postMessage(first.task);
  }

  #start(): Worker {
    const worker = new Worker(ENTRY, { workerData: this.#files, execArgv: [], name: "long-texts" });
    this.#running.add(this);
    worker.on("message", (result: ThreadResult) => {
      this.#queue.shift()?.resolve(result);
      this.#next();
    });
    worker.once("error", (error: Error) => void this.#stop(error.message));
    return worker;
  }

  /** What waits fails; the next task starts a thread anew. */
  async #stop(reason: string): Promise<void> {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#worker = undefined;
    this.#running.delete(this);
    for (const { resolve } of this.#queue.splice(0)) resolve({ failed: reason });
    await worker?.terminate();
  }
}

function tooManyTexts(count: number): ApiError {
  const message = `${count} long texts wait for this policy's tokenizer already`;
  return new ApiError("RESOURCE_EXHAUSTED", "queue_full", message, { retryAfterS: 1 });
}
