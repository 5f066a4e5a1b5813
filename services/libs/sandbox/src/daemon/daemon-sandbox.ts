// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import { egressProxy } from "../egress/proxy.ts";
import { PROXY_PORT, PROXY_VARIABLES } from "../egress/reached.ts";
import { FileConflictError, LimitError, SandboxError } from "../failure.ts";
import type { DownloadOptions, ExecOptions, Execution, Sandbox, SandboxFile, SandboxLevel } from "../sandbox.ts";
import { checkPaths, readTar, writeTar } from "../tar.ts";
import type { Answer } from "./connection.ts";
import { type CommandLimits, DaemonExecution } from "./daemon-execution.ts";
import type { DaemonLink } from "./daemon-link.ts";
import { openTunnel } from "./tunnel.ts";

const MAX_DOWNLOAD_BYTES = 16 * 1024 * 1024;

export interface DaemonSandboxOptions {
  readonly level: SandboxLevel;
  readonly limits: CommandLimits;
  readonly onClose: () => void;
}

/** A pod or a container with a daemon of ours, which runs commands and passes files. */
export class DaemonSandbox implements Sandbox {
  readonly level: SandboxLevel;
  readonly workspace = "/workspace";
  readonly temporary = "/tmp";
  readonly #link: DaemonLink;
  readonly #limits: CommandLimits;
  #env: Readonly<Record<string, string>> = {};
  readonly #onClose: () => void;
  readonly #running = new Set<DaemonExecution>();
  #closing: Promise<void> | undefined;

  constructor(link: DaemonLink, { level, limits, onClose }: DaemonSandboxOptions) {
    this.level = level;
    this.#link = link;
    this.#limits = limits;
    this.#onClose = onClose;
  }

  get id(): string {
    return this.#link.id;
  }

  exec(command: readonly string[], options: ExecOptions = {}): Execution {
    const { cwd = "" } = options;
    if (cwd !== "") checkPaths([cwd], "cwd");
    const { over } = this.#link;
    if (over instanceof SandboxError) throw over;
    const env = { ...this.#env, ...options.env };
    const execution = new DaemonExecution(this.#link, command, { ...options, env }, this.#limits);
    this.#running.add(execution);
    const forget = (): boolean => this.#running.delete(execution);
    execution.result.then(forget, forget);
    return execution;
  }

  async upload(files: readonly SandboxFile[], signal?: AbortSignal): Promise<void> {
    if (files.length === 0) return;
    const body = writeTar(files);
    expectWritten(await this.#call({ method: "PUT", path: "/files", body, signal }));
  }

  /** From now on commands find a proxy that leads to these. @param targets  "host:port" each; none: nothing is done */
  async reach(targets: readonly string[], signal?: AbortSignal): Promise<void> {
    if (targets.length === 0) return;
    const proxy = egressProxy({ allowed: targets, setting: "sandbox.network" });
    await openTunnel(this.#link, PROXY_PORT, proxy, signal);
    this.#env = PROXY_VARIABLES;
  }

  /** The files of a prepared state, from its archive. */
  begin(archive: string, signal?: AbortSignal): Promise<void> {
    return this.#unpack("/prepared", async () => createReadStream(archive), signal);
  }

  /** @param archive  of what a folder of its image holds; asked for again where a connection broke */
  beginFolder(folder: string, archive: () => Promise<Readable>, signal?: AbortSignal): Promise<void> {
    return this.#unpack(`/prepared?folder=${encodeURIComponent(folder)}`, archive, signal);
  }

  async #unpack(path: string, archive: () => Promise<Readable>, signal: AbortSignal | undefined): Promise<void> {
    const { connection } = this.#link;
    const put = async () => connection.call({ method: "PUT", path, body: await archive(), signal });
    expectWritten(await this.#link.reach(put, signal));
  }

  async download(paths: readonly string[], options: DownloadOptions = {}): Promise<SandboxFile[]> {
    checkPaths(paths, "paths");
    const { maxBytes = MAX_DOWNLOAD_BYTES, signal } = options;
    const body = JSON.stringify({ paths, maxBytes });
    const answer = await this.#call({ method: "POST", path: "/files", body, signal });
    if (answer.status === 413) throw new LimitError("OUTPUT", `the files have more than ${maxBytes} bytes`);
    if (answer.status !== 200) throw failed(answer);
    return readTar(answer.body);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #call(call: Parameters<DaemonLink["connection"]["call"]>[0]): Promise<Answer> {
    return this.#link.reach(() => this.#link.connection.call(call), call.signal);
  }

  async #close(): Promise<void> {
    this.#link.end(new SandboxError("CLOSED", "the sandbox was closed"));
    try {
      await this.#link.release();
      await Promise.allSettled([...this.#running].map(({ result }) => result));
    } finally {
      this.#onClose();
    }
  }
}

function expectWritten(answer: Answer): void {
  if (answer.status === 204) return;
  const { message } = said(answer);
  if (answer.status === 507) throw new LimitError("DISK", `files could not be written: ${message}`);
  if (answer.status === 409) throw new FileConflictError(`files could not be written: ${message}`);
  throw failed(answer);
}

function failed(answer: Answer): SandboxError {
  return new SandboxError("START", `the sandbox refused: ${answer.status} ${said(answer).message}`);
}

function said({ body }: Answer): { message: string } {
  try {
    const { message = "" } = JSON.parse(body.toString()) as { message?: string };
    return { message };
  } catch {
    return { message: body.toString().slice(0, 500) };
  }
}
