// SPDX-License-Identifier: Apache-2.0
import type { PolicyFailure } from "./failure.ts";

/** How strong the isolation is on a machine of ours; docs/sandboxes.md says what each level stops. */
export const LEVELS = ["A", "B", "C"] as const;
/** "pod", "container": one of its own, as strong as its pool's runtime class, or the engine's runtime. */
export type SandboxLevel = (typeof LEVELS)[number] | "pod" | "container";

/** "none": Unix sockets only. "loopback": also IP, over a loopback interface of the sandbox's own. Neither leads out of it. */
export type SandboxNetwork = "none" | "loopback";

export interface SandboxLimits {
  /** Of all processes and of the files that they write, MiB. Level B: of each process alone. */
  readonly memoryMiB: number;
  /** Cores; not limited at level B. */
  readonly cpus: number;
  /** Processes and threads. */
  readonly processes: number;
  /** What may be written, MiB. The files lie in memory. */
  readonly diskMiB: number;
  /** Files and folders that may be made. */
  readonly diskFiles: number;
  /** Files that one process may have open. */
  readonly openFiles: number;
  /** How long a command may run unless its own deadline says otherwise, milliseconds. */
  readonly wallMs: number;
}

export interface OpenOptions {
  /** The level that is wanted at least. Default: the strongest that works here. */
  readonly level?: SandboxLevel | undefined;
  /** What `/workspace` holds at first, as a fork: what is written here is seen by nobody else. Default: nothing. */
  readonly prepared?: PreparedState | undefined;
  /** Container image that the sandbox begins with, for backends that have images. */
  readonly image?: string | undefined;
  /** Folders of the image, absolute, that commands may write: each begins as a copy, within the limits of files. Default: none. */
  readonly imageFolders?: readonly string[] | undefined;
  /** Folders outside of `/workspace`, absolute, that begin empty and commands may write. Not at level C. Default: none. */
  readonly emptyFolders?: readonly string[] | undefined;
  /** Put into `/workspace` on top. */
  readonly files?: readonly SandboxFile[] | undefined;
  readonly limits?: Partial<SandboxLimits> | undefined;
  /** Default "none". */
  readonly network?: SandboxNetwork | undefined;
  /** What may be connected to, each "host:port": through a proxy that HTTPS_PROXY and its like name. Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** It ends by itself after this time, even if its owner hangs, milliseconds. Default: an hour. */
  readonly ttlMs?: number | undefined;
  /** Another is opened right after it: where `open` waits for room, it waits for room for both. Default: false. */
  readonly withAnother?: boolean | undefined;
  /** The one that this is the other of. */
  readonly beside?: Sandbox | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A regular file. Paths are relative to `/workspace`, separated by "/", without "." and "..". */
export interface SandboxFile {
  readonly path: string;
  readonly content: string | Uint8Array;
  /** Default: not executable. */
  readonly executable?: boolean | undefined;
}

export interface ExecOptions {
  /** Relative to `/workspace`. */
  readonly cwd?: string | undefined;
  /** Added to PATH, HOME, TMPDIR, LANG and PYTHONDONTWRITEBYTECODE, the only ones there are. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** All of standard input. Default: it stays open for `Execution.write`. */
  readonly stdin?: string | Uint8Array | undefined;
  /** Default: the sandbox's `wallMs`. */
  readonly deadlineMs?: number | undefined;
  /** Output that is kept: the first and the last half of it. Default 1 MiB. */
  readonly maxOutputBytes?: number | undefined;
  /** Output after which the command is killed. Default 64 MiB. */
  readonly maxTotalBytes?: number | undefined;
  /** Kills the command; its result rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface OutputChunk {
  /** How many bytes of both streams came before it. */
  readonly sequence: number;
  readonly stream: "stdout" | "stderr";
  readonly data: Uint8Array;
  /** Bytes between what the reader has seen and this chunk that were thrown away, because they were more than is kept. */
  readonly cutBytes: number;
}

export interface ExecResult {
  /** 128 + n after signal n. */
  readonly exitCode: number;
  /** The limit that the command ran into. */
  readonly failure: PolicyFailure | undefined;
  /** What is kept of the output; where something is missing it says how much. */
  readonly stdout: string;
  readonly stderr: string;
  /** Of both streams. */
  readonly cutBytes: number;
}

/** A command that runs, in a process namespace of its own: when it ends, nothing that it started is left. */
export interface Execution {
  readonly result: Promise<ExecResult>;
  /** Bytes of output so far. */
  readonly totalBytes: number;
  /** Output from a byte on, until the command ends. A reader that was cut off goes on with the byte after its last chunk. */
  chunks(from?: number): AsyncIterable<OutputChunk, undefined>;
  write(data: string | Uint8Array): Promise<void>;
  endInput(): void;
  /** @param failure  the limit of the caller's that it ran into; the result names it */
  kill(failure?: PolicyFailure): void;
}

export interface Sandbox extends AsyncDisposable {
  readonly id: string;
  /** To be recorded with the episode. */
  readonly level: SandboxLevel;
  /** Where `/workspace` lies for its commands: at level C in a folder of its own. */
  readonly workspace: string;
  /** Where `/tmp` lies for its commands; TMPDIR says it too. */
  readonly temporary: string;
  /** Starts a program; a shell is `["sh", "-c", "…"]`. @throws SandboxError, also by the execution's `result`. */
  exec(command: readonly string[], options?: ExecOptions): Execution;
  /** Writes files with the rights of the sandbox, so that no link in it leads out. @throws SandboxError, LimitError, FileConflictError */
  upload(files: readonly SandboxFile[], signal?: AbortSignal): Promise<void>;
  /**
   * Reads files, and all files of folders, below `/workspace`. Paths that are not there are left out, and so is everything that
   * is no regular file: a link is never followed.
   * @throws SandboxError; LimitError OUTPUT when they are more than `maxBytes`
   */
  download(paths: readonly string[], options?: DownloadOptions): Promise<SandboxFile[]>;
  /** Kills everything and deletes everything. Harmless twice. */
  close(): Promise<void>;
}

export interface DownloadOptions {
  /** Default 16 MiB. */
  readonly maxBytes?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A folder that any number of sandboxes begin with, and none can change. */
export interface PreparedState extends AsyncDisposable {
  readonly path: string;
}

export interface SandboxBackend extends AsyncDisposable {
  /** The strongest level that works here. */
  readonly level: SandboxLevel;
  /** @throws SandboxError, or ConfigError for options that are out of range. */
  open(options?: OpenOptions): Promise<Sandbox>;
  /** Copies a folder, once. */
  prepare(folder: string, signal?: AbortSignal): Promise<PreparedState>;
}
