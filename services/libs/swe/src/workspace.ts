// SPDX-License-Identifier: Apache-2.0
import { LimitError, type ExecResult, type Sandbox, type SandboxBackend, type SandboxLimits } from "@whetstone/sandbox";
import type { AgentShell, CommandOptions } from "./agent-shell.ts";
import { applyEdits, type Texts } from "./edits.ts";
import { REPO, SITE, type Suite, TOOL } from "./library.ts";
import type { OpenedLibrary } from "./library-store.ts";
import { type SourceChange, sourceChange } from "./source-change.ts";
import type { SweTask } from "./task.ts";

export interface WorkspaceOptions {
  /** The files with the tests that fail are taken away, so that a repair cannot be written from them. */
  readonly hideTests?: boolean | undefined;
  readonly limits?: Partial<SandboxLimits> | undefined;
  /** What the agent may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  readonly ttlMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** More of a library's own code than this is no repair. */
const MAX_SOURCE_BYTES = 32 * 1024 * 1024;

/** The library with its bug, for one agent. */
export class Workspace implements AgentShell {
  readonly library: OpenedLibrary;
  readonly sandbox: Sandbox;
  /** The library's own code, with the bug. */
  readonly #broken: Texts;

  private constructor(library: OpenedLibrary, sandbox: Sandbox, broken: Texts) {
    this.library = library;
    this.sandbox = sandbox;
    this.#broken = broken;
  }

  /** @throws WhetstoneError TASK_INVALID, SandboxError */
  static async open(
    backend: SandboxBackend,
    library: OpenedLibrary,
    task: Pick<SweTask, "edits" | "failToPass">,
    { hideTests = false, ...options }: WorkspaceOptions = {},
  ): Promise<Workspace> {
    const broken = brokenSources(library, task);
    const files = filesOf(broken, library.sources);
    const hidden = hideTests ? task.failToPass.map((id) => `${REPO}/${id.split("::")[0]}`) : [];
    const sandbox = await backend.open({ ...options, prepared: library.state, files });
    try {
      await sandbox.exec(["rm", "-rf", "--", TOOL, ...new Set(hidden)], { signal: options.signal }).result;
      return new Workspace(library, sandbox, broken);
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }

  get root(): string {
    return `${this.sandbox.workspace}/${REPO}`;
  }

  /** One command of the agent's, in the repository. */
  run(command: string, { timeoutMs, maxOutputBytes, stdin = "", signal }: CommandOptions): Promise<ExecResult> {
    const env = environmentOf(this.library.record.suite, this.sandbox);
    const options = { cwd: REPO, env, deadlineMs: timeoutMs, maxOutputBytes, stdin, signal };
    return this.sandbox.exec(["bash", "-c", command], options).result;
  }

  /** @throws LimitError, SandboxError */
  async change(signal?: AbortSignal): Promise<SourceChange> {
    const { suite } = this.library.record;
    const paths = suite.packages.map((path) => `${REPO}/${path}`);
    const files = await this.sandbox.download(paths, { maxBytes: MAX_SOURCE_BYTES, signal });
    const texts = files.map(
      ({ path, content }) => [path.slice(REPO.length + 1), Buffer.from(content).toString()] as const,
    );
    if (texts.length > MAX_FILES) throw new LimitError("DISK", `the library has ${texts.length} files now`);
    return sourceChange(this.#broken, new Map(texts), suite);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sandbox.close();
  }
}

const MAX_FILES = 10_000;

/** @throws WhetstoneError TASK_INVALID */
export function brokenSources({ sources }: OpenedLibrary, { edits }: Pick<SweTask, "edits">): Texts {
  return applyEdits(sources, edits);
}

/** Those that differ from what the sandbox begins with. */
export function filesOf(texts: Texts, from: Texts) {
  const different = [...texts].filter(([path, text]) => from.get(path) !== text);
  return different.map(([path, content]) => ({ path: `${REPO}/${path}`, content }));
}

/** What runs the tests finds the repository's library, and what they import; nothing depends on the order of a set. */
function environmentOf({ language, paths }: Suite, { workspace, temporary }: Sandbox): Record<string, string> {
  const repo = `${workspace}/${REPO}`;
  if (language === "javascript")
    return { HOME: temporary, NODE_PATH: `${workspace}/${SITE}/node_modules`, OPENSSL_CONF: "/dev/null", PAGER: "cat" };
  const folders = paths.map((path) => (path === "." ? repo : `${repo}/${path}`));
  return {
    HOME: temporary,
    PYTHONPATH: [...folders, `${workspace}/${SITE}`].join(":"),
    PYTHONHASHSEED: "0",
    PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
    PAGER: "cat",
  };
}
