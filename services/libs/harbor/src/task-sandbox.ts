// SPDX-License-Identifier: Apache-2.0
import { readdirSync } from "node:fs";
import { randomBytes } from "node:crypto";
import {
  type ExecResult,
  FileConflictError,
  LimitError,
  type OpenOptions,
  type Sandbox,
  type SandboxBackend,
} from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { type AgentShell, type BorrowedState, type CommandOptions, quoted, type StateStore } from "@whetstone/swe";
import { buildPlan, type BuildStep, ownFolders, rootFolder, workdirFolder } from "./build-plan.ts";
import type { HarborTask, TaskFile } from "./task-folder.ts";

export const LOGS = "/logs";
export const TESTS = "/tests";

export interface TaskSandboxOptions {
  /** Variables of every command, over the task's own. */
  readonly environment: Readonly<Record<string, string>>;
  /** Folders of the image that commands may write, beside the working directory's. */
  readonly writable: readonly string[];
  /** Empty folders beside Harbor's. Default: none. */
  readonly emptyFolders?: readonly string[] | undefined;
  readonly limits?: OpenOptions["limits"];
  readonly ttlMs?: number | undefined;
  /** What commands may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface HarborDeps {
  readonly backend: SandboxBackend;
  /** Of tasks that name none. Undefined: the backend has no images. */
  readonly image?: string | undefined;
  /** What the root folder holds at first, where there are no images: a folder a task. */
  readonly states?: StateStore | undefined;
}

const OWN = { timeoutMs: 300_000, maxOutputBytes: 16_384 } as const;

/** Where files lie until they are copied. Below `/workspace`. */
const CONTEXT = ".whetstone-context";

/** A task's sandbox, with the folders that Harbor has. */
export class TaskSandbox implements AgentShell {
  readonly sandbox: Sandbox;
  readonly root: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #state: BorrowedState | undefined;
  #isClosed = false;

  private constructor(
    sandbox: Sandbox,
    { workdir, imageEnvironment, config }: HarborTask,
    environment: Readonly<Record<string, string>>,
    state: BorrowedState | undefined,
  ) {
    this.sandbox = sandbox;
    this.root = workdir;
    const own = resolved("environment.env", config.environment.env, environment);
    this.#env = { PAGER: "cat", ...imageEnvironment, ...own, ...environment };
    this.#state = state;
  }

  /** @throws EpisodeError TASK for what of the task cannot be done here, ConfigError, SandboxError */
  static async open(deps: HarborDeps, task: HarborTask, options: TaskSandboxOptions): Promise<TaskSandbox> {
    const { environment, emptyFolders: more = [], limits, ttlMs, reach, signal } = options;
    await using undo = new AsyncDisposableStack();
    const state = deps.image === undefined ? await deps.states?.borrow(task.name) : undefined;
    if (state !== undefined) undo.use(state);
    const start = startOf(deps, task, state, options);
    const emptyFolders = [LOGS, TESTS, ...more, ...(start.folders ?? [])];
    const sandbox = await deps.backend.open({ ...start.open, emptyFolders, limits, ttlMs, reach, signal });
    undo.use(sandbox);
    const shell = new TaskSandbox(sandbox, task, environment, state);
    const folders = ["agent", "verifier", "artifacts"].map((part) => `${LOGS}/${part}`).join(" ");
    await shell.#own([`mkdir -p ${folders}`, ...(start.scripts ?? [])].join(" && "), signal);
    const deadline = performance.now() + task.config.environment.build_timeout_sec * 1000;
    for (const step of start.steps ?? []) await shell.#build(step, deadline, signal);
    if (start.steps) await shell.#own(`rm -rf -- ${quoted(`${sandbox.workspace}/${CONTEXT}`)}`, signal);
    undo.move();
    return shell;
  }

  /** In the working directory. 125 where there is none any more. */
  run(command: string, { timeoutMs, maxOutputBytes, stdin = "", signal }: CommandOptions): Promise<ExecResult> {
    const script = `cd -- "$1" || exit 125\ncommand=$2\nset --\neval "$command"`;
    const options = { env: this.#env, deadlineMs: timeoutMs, maxOutputBytes, stdin, signal };
    return this.sandbox.exec(["bash", "-c", script, "bash", this.root, command], options).result;
  }

  /** As Harbor runs a script of a task's: executable, in the working directory, its errors among its output. */
  runScript(
    path: string,
    env: Readonly<Record<string, string>>,
    { timeoutMs, maxOutputBytes, signal }: CommandOptions,
  ): Promise<ExecResult> {
    // Without what the agent may have left for shells to read: bash takes a socket as its input for a login over the network.
    const script = 'cd -- "$1" || exit 125; ("$2") 2>&1 </dev/null';
    const options = { env: { ...this.#env, ...env }, deadlineMs: timeoutMs, maxOutputBytes, stdin: "", signal };
    return this.sandbox.exec(["bash", "--norc", "-c", script, "bash", this.root, path], options).result;
  }

  /**
   * Makes a folder anew with these files, whatever was made of it.
   * @returns why it cannot be: what commands have left is in the way
   */
  async replaceFolder(
    folder: string,
    files: readonly TaskFile[],
    script: string,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    // By a name that nobody could know, so that nothing lies there.
    const name = `.whetstone-${randomBytes(8).toString("hex")}`;
    const from = quoted(`${this.sandbox.workspace}/${name}`);
    try {
      await this.sandbox.upload(
        files.map((file) => ({ ...file, path: `${name}/${file.path}` })),
        signal,
      );
    } catch (error) {
      if (error instanceof LimitError || error instanceof FileConflictError) return error.message;
      throw error;
    }
    const empty = `chmod -R u+rwX ${folder}; find ${folder} -mindepth 1 -delete`;
    const result = await this.#exec(
      `${empty} && cp -R ${from}/. ${folder} && chmod u+x ${folder}/${script} && rm -rf ${from}`,
      signal,
    );
    return result.exitCode === 0 ? undefined : `${folder} could not be made: ${said(result)}`;
  }

  /** @returns undefined where it could be done, else why not */
  async emptyLogs(part: string, signal?: AbortSignal): Promise<string | undefined> {
    const folder = `${LOGS}/${part}`;
    // Removed by its name, since it may be a link by now.
    const result = await this.#exec(`chmod -R u+rwX ${LOGS}; rm -rf ${folder} && mkdir ${folder}`, signal);
    return result.exitCode === 0 ? undefined : `${folder} could not be emptied: ${said(result)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.sandbox.close();
    await this.#state?.[Symbol.asyncDispose]();
  }

  #exec(script: string, signal: AbortSignal | undefined): Promise<ExecResult> {
    const options = { deadlineMs: OWN.timeoutMs, maxOutputBytes: OWN.maxOutputBytes, stdin: "", signal };
    return this.sandbox.exec(["sh", "-c", script], options).result;
  }

  async #own(script: string, signal: AbortSignal | undefined): Promise<void> {
    const result = await this.#exec(script, signal);
    if (result.exitCode !== 0) throw new EpisodeError("TASK", `the sandbox could not be prepared: ${said(result)}`);
  }

  async #build(step: BuildStep, deadline: number, signal: AbortSignal | undefined): Promise<void> {
    const command = ["sh", "-c", `cd -- "$1" && eval "$2"`, "sh", step.workdir, step.script];
    const deadlineMs = Math.max(1, Math.ceil(deadline - performance.now()));
    const options = { env: step.env, deadlineMs, maxOutputBytes: OWN.maxOutputBytes, stdin: "", signal };
    const result = await this.sandbox.exec(command, options).result;
    if (result.exitCode === 0 && result.failure === undefined) return;
    const where = "without an image there is neither root nor a network here";
    throw new EpisodeError("TASK", `${step.what}: cannot be done, ${said(result)} (${where})`);
  }
}

interface Start {
  readonly open: Pick<OpenOptions, "image" | "imageFolders" | "prepared" | "files">;
  readonly folders?: readonly string[];
  readonly scripts?: readonly string[];
  readonly steps?: readonly BuildStep[];
}

/** From its image, from a folder that was prepared, or by its Dockerfile. */
function startOf(
  { image }: HarborDeps,
  task: HarborTask,
  state: BorrowedState | undefined,
  { writable }: TaskSandboxOptions,
): Start {
  if (image !== undefined) {
    const folder = rootFolder(task.workdir) ?? task.workdir;
    return { open: { image, imageFolders: ownFolders([folder, ...writable]) } };
  }
  if (state !== undefined) return fromState(task, state);
  const context = `/workspace/${CONTEXT}`;
  const { steps, folders } = buildPlan(task, context);
  const files = task.environment.map((file) => ({ ...file, path: `${CONTEXT}/${file.path}` }));
  return { open: { files }, folders: ownFolders([...folders, workdirFolder(task)]), steps };
}

/** Its folders are those of the root folder. */
function fromState(task: HarborTask, { state }: BorrowedState): Start {
  const names = readdirSync(state.path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const folders = ownFolders([...names.map(({ name }) => `/${name}`), workdirFolder(task)]);
  const scripts = names
    .map(({ name }) => `/workspace/${name}`)
    .map((from) => {
      const to = quoted(from.slice("/workspace".length));
      return `cp -a -- ${quoted(from)}/. ${to} && rm -rf -- ${quoted(from)}`;
    });
  return { open: { prepared: state }, folders, scripts: [...scripts, `mkdir -p -- ${quoted(task.workdir)}`] };
}

const TEMPLATE = /^\$\{(?<name>[^}:]+)(?::-(?<otherwise>.*))?\}$/su;

/**
 * `${NAME}` and `${NAME:-default}` are the job's variables. Those of the service are nobody's affair.
 * @throws EpisodeError TASK for one that the job does not give
 */
export function resolved(
  field: string,
  variables: Readonly<Record<string, string>>,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const entries = Object.entries(variables).map(([key, value]): [string, string] => {
    const { name, otherwise } = TEMPLATE.exec(value)?.groups ?? {};
    if (name === undefined) return [key, value];
    const found = given[name] ?? otherwise;
    if (found === undefined)
      throw new EpisodeError("TASK", `task.toml: ${field}.${key} needs ${name}: give it in environment`);
    return [key, found];
  });
  return Object.fromEntries(entries);
}

export function said({ exitCode, failure, stdout, stderr }: ExecResult): string {
  const text = `${stdout}\n${stderr}`.trim().slice(-500);
  return `${failure ?? `exit code ${exitCode}`}${text === "" ? "" : `: ${text}`}`;
}
