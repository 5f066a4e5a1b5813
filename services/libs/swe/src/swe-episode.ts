// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { LimitError, type SandboxBackend, type SandboxLimits } from "@whetstone/sandbox";
import { EpisodeError, type Info, type RewardOutput, type StepOptions } from "@whetstone/sdk";
import type { Tool } from "@whetstone/tools";
import { gradeChange } from "./grading.ts";
import { ofThePlatform } from "./infrastructure.ts";
import type { LibraryStore } from "./library-store.ts";
import type { SourceChange } from "./source-change.ts";
import type { SweTask } from "./task.ts";
import { type Toolset, toolsOf } from "./tools/toolset.ts";
import { unresolved, type Verdict } from "./verdict.ts";
import { Workspace } from "./workspace.ts";

export interface SweEpisodeOptions {
  readonly task: SweTask;
  /** What the reward is: 1 for a repair and 0 else, or how far it came. */
  readonly reward: "resolved" | "dense";
  readonly hideTests?: boolean | undefined;
  /** Default: bash. */
  readonly toolset?: Toolset | undefined;
  readonly commandTimeoutMs: number;
  readonly maxOutputBytes: number;
  readonly limits?: Partial<SandboxLimits> | undefined;
  /** What the agent may connect to, each "host:port"; who judges reaches nothing. Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** After this time everything ends, even where nobody closes it. */
  readonly ttlMs?: number | undefined;
}

export interface SweDeps {
  readonly backend: SandboxBackend;
  readonly libraries: LibraryStore;
}

/** One try to repair a library: a sandbox for the agent while it lasts, and another one to judge it. */
export class SweEpisode {
  readonly #options: SweEpisodeOptions;
  #opened: (SweDeps & { readonly workspace: Workspace }) | undefined;

  constructor(options: SweEpisodeOptions) {
    this.#options = options;
  }

  /** What the agent may call. Closing the first of them closes the sandbox. @throws EpisodeError */
  async open(deps: SweDeps, signal?: AbortSignal): Promise<readonly Tool[]> {
    const { task, toolset = "bash", commandTimeoutMs: timeoutMs, maxOutputBytes } = this.#options;
    const { limits, ttlMs, hideTests, reach } = this.#options;
    const workspace = await ofThePlatform(async () => {
      const library = await deps.libraries.open(task.library);
      checkSource(task, library.record.sdist.sha256);
      return Workspace.open(deps.backend, library, task, { limits, ttlMs, hideTests, reach, signal });
    });
    this.#opened = { ...deps, workspace };
    return toolsOf(toolset, workspace, { timeoutMs, maxOutputBytes, reach });
  }

  /** Judges what the agent has left, and ends its sandbox. @throws EpisodeError */
  async grade({ signal }: StepOptions = {}): Promise<RewardOutput> {
    const verdict = await ofThePlatform(() => this.#judge(signal));
    const { resolved, dense, reason = "", failToPass, passToPass } = verdict;
    const metadata: Info = { resolved, failToPass, passToPass, dense, reason };
    return { reward: this.#options.reward === "dense" ? dense : Number(resolved), isCorrect: resolved, metadata };
  }

  async #judge(signal: AbortSignal | undefined): Promise<Verdict> {
    if (this.#opened === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "the episode is not open yet");
    const { backend, workspace } = this.#opened;
    const change = await changeOf(workspace, signal);
    // Before another is opened: where a pool is full, those who hold one and wait for one more would wait for ever.
    await workspace[Symbol.asyncDispose]();
    if (change === undefined) return unresolved("the library cannot be read any more");
    if (change.written.size + change.deleted.length === 0) return unresolved("nothing of the library was changed");
    return gradeChange(backend, workspace.library, this.#options.task, { change, signal });
  }
}

/** Undefined: the agent has made it so that it cannot be read. */
async function changeOf(workspace: Workspace, signal: AbortSignal | undefined): Promise<SourceChange | undefined> {
  try {
    return await workspace.change(signal);
  } catch (error) {
    if (error instanceof LimitError) return undefined;
    throw error;
  }
}

function checkSource({ library, sdist }: SweTask, found: string): void {
  if (sdist === found) return;
  const what = `the task was made from ${library} with the digest ${sdist}, and what is here has ${found}`;
  throw new EpisodeError("TASK", what);
}
