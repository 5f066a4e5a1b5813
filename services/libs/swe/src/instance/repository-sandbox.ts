// SPDX-License-Identifier: Apache-2.0
import type { ExecResult, OpenOptions, Sandbox, SandboxBackend } from "@whetstone/sandbox";
import type { AgentShell, CommandOptions } from "../agent-shell.ts";
import type { BorrowedState } from "./state-store.ts";

/** Where a repository comes from: an image, or a folder that was prepared. */
export type Source = { readonly image: string } | BorrowedState;

export interface RepositoryOptions {
  /** Of the repository, absolute: as it is called where /workspace has its own name. */
  readonly root: string;
  /** Variables of each command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly limits?: OpenOptions["limits"];
  readonly ttlMs?: number | undefined;
  /** What commands may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

const IN_WORKSPACE = /^\/workspace(?=\/|$)/u;

/** Git looks at a repository whatever user it belongs to, and asks for nobody's name. */
const GIT = {
  GIT_CONFIG_COUNT: "4",
  GIT_CONFIG_KEY_0: "safe.directory",
  GIT_CONFIG_VALUE_0: "*",
  GIT_CONFIG_KEY_1: "user.name",
  GIT_CONFIG_VALUE_1: "nobody",
  GIT_CONFIG_KEY_2: "user.email",
  GIT_CONFIG_VALUE_2: "nobody@localhost",
  GIT_CONFIG_KEY_3: "core.fileMode",
  GIT_CONFIG_VALUE_3: "false",
  GIT_TERMINAL_PROMPT: "0",
} as const;

/** A sandbox with a repository, and a shell in it. */
export class RepositorySandbox implements AgentShell {
  readonly sandbox: Sandbox;
  readonly root: string;
  readonly #environment: Readonly<Record<string, string>>;

  readonly #source: Source;
  #isClosed = false;

  private constructor(sandbox: Sandbox, source: Source, { root, environment }: RepositoryOptions) {
    this.sandbox = sandbox;
    this.#source = source;
    this.root = root.replace(IN_WORKSPACE, sandbox.workspace);
    this.#environment = environment;
  }

  /** @throws SandboxError */
  static async open(backend: SandboxBackend, source: Source, options: RepositoryOptions): Promise<RepositorySandbox> {
    const { limits, ttlMs, reach, signal } = options;
    const from = "image" in source ? fromImage(source.image, options) : { prepared: source.state };
    try {
      return new RepositorySandbox(await backend.open({ ...from, limits, ttlMs, reach, signal }), source, options);
    } catch (error) {
      await giveBack(source);
      throw error;
    }
  }

  /** In the root of the repository. 125 where there is none. */
  run(command: string, { timeoutMs, maxOutputBytes, stdin = "", signal }: CommandOptions): Promise<ExecResult> {
    const script = `cd -- "$1" || exit 125\ncommand=$2\nset --\neval "$command"`;
    const env = { PAGER: "cat", ...GIT, ...this.#environment };
    const options = { env, deadlineMs: timeoutMs, maxOutputBytes, stdin, signal };
    return this.sandbox.exec(["bash", "-c", script, "bash", this.root, command], options).result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sandbox.close();
    if (!this.#isClosed) await giveBack(this.#source);
    this.#isClosed = true;
  }
}

/** An image has its repository where the image was made, as /testbed. */
function fromImage(image: string, { root }: RepositoryOptions): Pick<OpenOptions, "image" | "imageFolders"> {
  return { image, ...(!IN_WORKSPACE.test(root) && { imageFolders: [root] }) };
}

async function giveBack(source: Source): Promise<void> {
  if (!("image" in source)) await source[Symbol.asyncDispose]();
}
