// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { SandboxBackend } from "@whetstone/sandbox";
import type { RewardOutput, StepOptions } from "@whetstone/sdk";
import type { Tool } from "@whetstone/tools";
import { ofThePlatform } from "../infrastructure.ts";
import { type Toolset, toolsOf } from "../tools/toolset.ts";
import { unresolved } from "../verdict.ts";
import { applyChange } from "./apply-change.ts";
import { begin, changeOf } from "./change-of.ts";
import { type RepositoryOptions, RepositorySandbox } from "./repository-sandbox.ts";
import type { InstanceVerdict, RepositoryTask } from "./repository-task.ts";
import { runTests } from "./run-tests.ts";
import type { StateStore } from "./state-store.ts";

export interface InstanceEpisodeOptions {
  readonly task: RepositoryTask;
  readonly toolset: Toolset;
  readonly reward: "resolved" | "dense";
  readonly commandTimeoutMs: number;
  /** Of the tests, and of what prepares them. */
  readonly testTimeoutMs: number;
  readonly maxOutputBytes: number;
  readonly repository: Omit<RepositoryOptions, "signal">;
}

export interface InstanceDeps {
  readonly backend: SandboxBackend;
  /** Where the repositories lie as folders. Default: in the tasks' images. */
  readonly states?: StateStore | undefined;
}

/** One try to repair a repository: a sandbox for the agent, and another one that its patch is judged in. */
export class InstanceEpisode {
  readonly #options: InstanceEpisodeOptions;
  #opened: { deps: InstanceDeps; shell: RepositorySandbox; commit: string } | undefined;

  constructor(options: InstanceEpisodeOptions) {
    this.#options = options;
  }

  /** What the agent may call. Closing the first of them closes the sandbox. @throws EpisodeError */
  async open(deps: InstanceDeps, signal?: AbortSignal): Promise<readonly Tool[]> {
    const { task, toolset, commandTimeoutMs: timeoutMs, maxOutputBytes } = this.#options;
    const shell = await ofThePlatform(() => this.#sandbox(deps, { signal }));
    try {
      const commit = await ofThePlatform(() => begin(shell, task.hidden, signal));
      this.#opened = { deps, shell, commit };
      const { reach } = this.#options.repository;
      return toolsOf(toolset, shell, { timeoutMs, maxOutputBytes, reach });
    } catch (error) {
      await shell[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Judges what the agent has left, and ends its sandbox. @throws EpisodeError */
  async grade({ signal }: StepOptions = {}): Promise<RewardOutput> {
    const verdict = await ofThePlatform(() => this.#judge(signal));
    const { resolved, dense, failToPass, passToPass, reason = "", details = {} } = verdict;
    const metadata = { ...details, resolved, failToPass, passToPass, dense, reason };
    return { reward: this.#options.reward === "dense" ? dense : Number(resolved), isCorrect: resolved, metadata };
  }

  async #judge(signal: AbortSignal | undefined): Promise<InstanceVerdict> {
    if (this.#opened === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "the episode is not open yet");
    const { deps, shell, commit } = this.#opened;
    const { task, testTimeoutMs: timeoutMs } = this.#options;
    const change = await changeOf(shell, commit, signal);
    // Before another is opened: where a pool is full, those who hold one and wait for one more would wait for ever.
    await shell[Symbol.asyncDispose]();
    if (change === undefined) return unresolved("no patch can be had of what it has changed");
    if (change.length === 0) return unresolved("nothing of the repository was changed");
    await using clean = await this.#sandbox(deps, { reach: [], signal }); // G1
    const reason = await applyChange(clean, change, task, signal);
    return reason === undefined ? await runTests(clean, task, { timeoutMs, signal }) : unresolved(reason);
  }

  async #sandbox(
    { backend, states }: InstanceDeps,
    own: Pick<RepositoryOptions, "reach" | "signal">,
  ): Promise<RepositorySandbox> {
    const { task, repository } = this.#options;
    const source = states === undefined ? { image: task.image } : await states.borrow(task.id);
    return RepositorySandbox.open(backend, source, { ...repository, ...own });
  }
}
