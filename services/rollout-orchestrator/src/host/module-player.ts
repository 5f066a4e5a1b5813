// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { Deadline, exponentialBackoff, retry, WhetstoneError } from "@whetstone/core";
import type { BundleStore } from "@whetstone/messaging";
import {
  type HostedModule,
  isProcessDeath,
  type ModuleCode,
  type ModuleHost,
  ModuleHosts,
  ModuleSandboxes,
  type WantedIsolation,
} from "@whetstone/modules";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { type Episode, EpisodeSchema, type Module, SandboxBackend } from "@whetstone/proto/types/v1/types";
import { EpisodeError, type Failure } from "@whetstone/sdk";
import type { Logger } from "@whetstone/telemetry";
import type { OrchestratorConfig } from "../config.ts";
import { EnvironmentModule } from "../environments/environment-module.ts";
import type { RunnerClients } from "../environments/runner-clients.ts";
import { RunnerEnvironments } from "../environments/runner-environments.ts";
import type { PlacedDelivery } from "../play/episode-player.ts";
import type { GatewayReplicas } from "../play/gateway-replicas.ts";
import { budgetsOf, episodeTimeoutMs } from "../play/limits.ts";
import { sealFailed } from "../seal/seal.ts";
import type { KindDescription, PlayCall, PlayerSettings } from "./play-call.ts";
import { ServedEnvironments } from "./served-environments.ts";

// M1: every task of a module is played in its job's process, never here. M2: what was in a process that ended is played again
// within its retry budget: first among other suspects, the last time alone, so that it fails for its own fault only.
// M3: a task that ended a process while it was alone is alone from its start in every later episode.

type Config = Pick<OrchestratorConfig, "maxEpisodes" | "moduleMemoryMib" | "moduleHangMs" | "moduleIdleMs">;

export interface ModulePlayerDeps {
  readonly bundles: BundleStore;
  readonly runners: RunnerClients;
  readonly gateways: Pick<GatewayReplicas, "connect" | "reached">;
  readonly logger: Logger;
  readonly env?: NodeJS.ProcessEnv;
  readonly onEnd?: (cause: WhetstoneError) => void;
}

type Played = { readonly episode: Episode } | { readonly failure: Failure; readonly died: boolean };

const START_MS = 60_000;
/** The engine's own deadline ends an episode; ours is for a process that does not keep it. Fetching calls and closing come after it. */
const GRACE_MS = 20_000;
const ALONE = 2;
const MARKED_KEPT = 10_000;
const FETCH = { attempts: 8, backoff: exponentialBackoff({ initialMs: 200, maxMs: 5_000 }) };
const ENTRY = new URL("./player-child.ts", import.meta.url);

/** Plays the tasks of jobs that bring their own code. */
export class ModulePlayer implements AsyncDisposable {
  readonly #deps: ModulePlayerDeps;
  readonly #hosts: ModuleHosts<PlayerSettings>;
  readonly #fetching = new Map<string, Promise<Uint8Array>>();
  readonly #playsAlone = new Set<string>();
  /** By host: a module is sent to an env-runner once for all of a job's episodes. */
  readonly #environmentModules = new WeakMap<ModuleHost, EnvironmentModule>();

  constructor(config: Config, deps: ModulePlayerDeps) {
    this.#deps = deps;
    const { maxEpisodes: connections } = config;
    this.#hosts = new ModuleHosts({
      entry: ENTRY,
      data: ({ code, digest }) => ({ code, digest, connections }),
      sandboxes: new ModuleSandboxes({ gateways: (url) => deps.gateways.connect(url) }),
      limits: { memoryMiB: config.moduleMemoryMib, hangMs: config.moduleHangMs, startMs: START_MS },
      idleMs: config.moduleIdleMs,
      logger: deps.logger,
      onEnd: deps.onEnd,
    });
  }

  /** Process ids of the children. */
  get pids(): number[] {
    return this.#hosts.pids;
  }

  /** Plays a task to its end, whatever came of it. @throws CANCELLED when the signal aborted it. */
  async play(delivery: PlacedDelivery, signal: AbortSignal): Promise<Episode> {
    const { task } = delivery;
    const startedAt = { ms: Date.now(), mark: performance.now() };
    const retries = budgetsOf(task).retryLimit;
    let deaths = this.#mustPlayAlone(task) ? ALONE : 0;
    const first = delivery.replay ?? 0;
    for (let replay = 0; ; replay += 1) {
      const level = deaths > 0 && replay === retries ? ALONE : Math.min(deaths, ALONE);
      const played = await this.#tryOnce({ ...delivery, replay: first + replay }, level, signal);
      if ("episode" in played) return played.episode;
      if (played.died) deaths += 1;
      const { failure } = played;
      if (failure.class !== "INFRASTRUCTURE" || replay >= retries)
        return sealFailed(delivery, failure, startedAt.ms, performance.now() - startedAt.mark);
    }
  }

  /** What a module defines. @throws NOT_FOUND when its code is neither here nor in the store; a TASK failure when it cannot be loaded. */
  async describe({ digest, code, sandbox }: Module, signal: AbortSignal): Promise<readonly KindDescription[]> {
    if (code.length > 0) this.#hosts.keep({ digest, code });
    const isolation = isolationOf(sandbox, []);
    const host = this.#hosts.of("", { digest, code: await this.#codeOf(digest, signal), isolation });
    try {
      using lease = await host.enter(0, signal);
      return (await lease.host.call("describe", undefined, { signal })) as readonly KindDescription[];
    } finally {
      this.#hosts.closeWhenIdle("");
    }
  }

  /** The job is over or pauses: its processes end when their last episode has. */
  jobLeft(job: string): void {
    this.#hosts.closeWhenIdle(job);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#hosts[Symbol.asyncDispose]();
  }

  /** @throws what is no verdict on the episode: its task is handed back */
  async #tryOnce(delivery: PlacedDelivery, level: number, signal: AbortSignal): Promise<Played> {
    try {
      return { episode: await this.#playOnce(delivery, level, signal) };
    } catch (error) {
      const failure = signal.aborted ? undefined : failureOf(error);
      if (failure === undefined) throw error;
      const died = isProcessDeath(error);
      if (died && level === ALONE) this.#markAlone(delivery.task);
      return { failure, died };
    }
  }

  async #playOnce(delivery: PlacedDelivery, level: number, signal: AbortSignal): Promise<Episode> {
    const { task, attempt, replay = 0, waitingMs, recorded, runners } = delivery;
    const waitingSince = performance.now();
    const module = await this.#moduleOf(task, signal);
    const host = this.#hosts.of(task.job, module);
    using lease = await host.enter(level, signal);
    const call: PlayCall = {
      task: toBinary(RolloutTaskSchema, task),
      attempt,
      replay,
      waitingMs: waitingMs + performance.now() - waitingSince,
      keys: this.#keysOf(task),
      gateways: this.#deps.gateways.reached,
      ...(recorded && { recorded: toBinary(EpisodeSchema, recorded) }),
    };
    using deadline = Deadline.after(episodeTimeoutMs(task) + GRACE_MS, signal);
    await using served = new ServedEnvironments({
      environments: new RunnerEnvironments(this.#deps.runners, runners, task.job),
      module: this.#environmentModuleOf(host, task, module),
      episodeId: task.episodeId,
      deadline,
    });
    const episode = await lease.host.call("play", call, { signal: deadline.signal, serve: served.serve });
    return fromBinary(EpisodeSchema, episode as Uint8Array);
  }

  async #moduleOf({ module, roles }: RolloutTask, signal: AbortSignal): Promise<HostedModule> {
    const digest = module?.digest ?? "";
    if (module !== undefined && module.code.length > 0) this.#hosts.keep(module); // A rehearsal: nothing is stored yet.
    const models = roles.flatMap(({ model }) => (model === undefined ? [] : [hostAndPort(model.baseUrl)]));
    return { digest, code: await this.#codeOf(digest, signal), isolation: isolationOf(module?.sandbox, models) };
  }

  #environmentModuleOf(host: ModuleHost, { module }: RolloutTask, { digest, code }: ModuleCode): EnvironmentModule {
    const known = this.#environmentModules.get(host);
    if (known !== undefined) return known;
    const made = new EnvironmentModule({ digest, code, sandbox: module?.sandbox });
    this.#environmentModules.set(host, made);
    return made;
  }

  /** From memory, else from the store, once for all who ask at the same time. */
  async #codeOf(digest: string, signal: AbortSignal): Promise<Uint8Array> {
    const kept = this.#hosts.code(digest);
    if (kept !== undefined) return kept;
    let fetching = this.#fetching.get(digest);
    if (fetching === undefined) {
      fetching = this.#fetch({ digest }).finally(() => this.#fetching.delete(digest));
      this.#fetching.set(digest, fetching);
    }
    const code = await fetching;
    signal.throwIfAborted();
    return code;
  }

  async #fetch({ digest }: Pick<ModuleCode, "digest">): Promise<Uint8Array> {
    const code = await retry(() => this.#deps.bundles.get(digest), FETCH);
    if (code === undefined) throw new WhetstoneError("NOT_FOUND", `module ${digest} is not in the bundle store`);
    this.#hosts.keep({ digest, code });
    return code;
  }

  #keysOf({ roles }: RolloutTask): Record<string, string> {
    const { env = process.env } = this.#deps;
    const names = roles.flatMap(({ model }) => (model?.apiKeyEnv ? [model.apiKeyEnv] : []));
    return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
  }

  #mustPlayAlone({ job, task }: RolloutTask): boolean {
    return this.#playsAlone.has(`${job}/${task?.id}`);
  }

  #markAlone({ job, task }: RolloutTask): void {
    this.#playsAlone.add(`${job}/${task?.id}`);
    if (this.#playsAlone.size <= MARKED_KEPT) return;
    const [oldest] = this.#playsAlone;
    this.#playsAlone.delete(oldest as string);
  }
}

/** @param models  of the job's roles, "host:port" */
function isolationOf(sandbox: Module["sandbox"], models: readonly string[]): WantedIsolation {
  const network = [...new Set([...(sandbox?.network ?? []), ...models])].sort();
  return { none: sandbox?.backend === SandboxBackend.NONE, network };
}

function hostAndPort(url: string): string {
  const { protocol, hostname, port } = new URL(url);
  return `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
}

/** Undefined: no verdict on the episode, so its task is handed back. */
function failureOf(error: unknown): Failure | undefined {
  const { code, message } = WhetstoneError.from(error);
  const failure = (failureClass: Failure["class"]): Failure => ({
    class: failureClass,
    phase: "module",
    message,
    code,
  });
  if (error instanceof EpisodeError) return failure(error.failureClass);
  switch (code) {
    case "MODULE_CRASHED":
    case "MODULE_HUNG":
    case "MODULE_TOO_LARGE":
      return failure("INFRASTRUCTURE");
    case "TASK_INVALID":
    case "NOT_FOUND":
      return failure("TASK");
    case "DEADLINE_EXCEEDED":
      return failure("DEADLINE");
    default:
      return undefined;
  }
}
