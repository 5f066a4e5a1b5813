// SPDX-License-Identifier: Apache-2.0
import { type Kube, PODS, type Stored } from "@whetstone/kube";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";
import { ENVIRONMENT_POOLS } from "../environment-pool/schema.ts";
import { RAY_CLUSTERS, rayClusterName, rayPodsOf, rayReadiness } from "../ray/ray-cluster.ts";
import type { TrainingJob } from "./schema.ts";
import type { JobFacts, Readiness } from "./facts.ts";
import { needsRay } from "./suspend.ts";
import type { Gateways } from "../../fleet/gateways/every-gateway.ts";

/** Looking is cheap, but not for every write of a record. */
const FRESH_MS = 2_000;
const ANSWER_MS = 3_000;
const DEFAULT_POOL = "default";

interface Deps {
  readonly kube: Kube;
  readonly fleetClient: Pick<Gateways, "listEngines">;
  readonly trainerClient: Pick<RpcClient<typeof TrainerService>, "status">;
}

export type Looks = Pick<JobFacts, "trainer" | "engines" | "environments">;

/** What a running job needs of others, as it is now. Who does not answer is not ready. */
export class JobReadiness {
  readonly #deps: Deps;
  readonly #kept = new Map<string, { readonly at: number; readonly value: Promise<unknown> }>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async look(job: Stored<TrainingJob>, signal: AbortSignal): Promise<Looks> {
    const { name } = job.metadata;
    const pool = poolOf(job);
    const [trainer, engines, environments] = await Promise.all([
      this.trainer(job, signal),
      this.#fresh(`engines/${name}`, () => this.#engines(name)),
      pool === undefined ? undefined : this.#fresh(`pool/${pool}`, () => this.#environments(pool)),
    ]);
    return { trainer, engines, environments };
  }

  /** With Ray: undefined when there is no cluster. */
  async trainer(job: Stored<TrainingJob>, signal: AbortSignal): Promise<Readiness | undefined> {
    if (!needsRay(job)) return this.#fresh("trainer", () => this.#localTrainer());
    const { kube } = this.#deps;
    const { name } = job.metadata;
    const cluster = await kube.get(RAY_CLUSTERS, rayClusterName(name), { signal });
    if (!cluster) return undefined;
    return rayReadiness(cluster, await kube.list(PODS, { labels: rayPodsOf(name), signal }));
  }

  /** Whether the gateway knows of any, whatever it serves. */
  hasEngines(): Promise<boolean> {
    const { fleetClient } = this.#deps;
    return this.#fresh("engines", () =>
      fleetClient.listEngines({}, { deadlineMs: ANSWER_MS }).then(
        ({ engines }) => engines.length > 0,
        () => false,
      ),
    );
  }

  async #localTrainer(): Promise<Readiness> {
    try {
      await this.#deps.trainerClient.status({}, { deadlineMs: ANSWER_MS });
      return { ready: 1, wanted: 1 };
    } catch (error) {
      return { ready: 0, wanted: 1, message: `The trainer does not answer: ${textOf(error)}` };
    }
  }

  async #engines(job: string): Promise<JobFacts["engines"]> {
    try {
      const { engines } = await this.#deps.fleetClient.listEngines({}, { deadlineMs: ANSWER_MS });
      const serving = engines.filter(({ state, policy }) => state === EngineState.SERVING && policy?.policy === job);
      const versions = serving.map(({ policy }) => Number(policy?.policyVersion ?? 0n));
      const oldestVersion = versions.length > 0 ? Math.min(...versions) : undefined;
      return { ready: serving.length, wanted: engines.length, oldestVersion };
    } catch (error) {
      return {
        ready: 0,
        wanted: 0,
        oldestVersion: undefined,
        message: `The gateway does not answer: ${textOf(error)}`,
      };
    }
  }

  async #environments(pool: string): Promise<Readiness | undefined> {
    const found = await this.#deps.kube.get(ENVIRONMENT_POOLS, pool).catch(() => undefined);
    return found && { ready: found.status?.ready ?? 0, wanted: found.spec.replicas };
  }

  #fresh<T>(key: string, look: () => Promise<T>): Promise<T> {
    const kept = this.#kept.get(key);
    if (kept && Date.now() - kept.at < FRESH_MS) return kept.value as Promise<T>;
    for (const [old, { at }] of this.#kept) if (Date.now() - at >= FRESH_MS) this.#kept.delete(old);
    const value = look();
    this.#kept.set(key, { at: Date.now(), value });
    return value;
  }
}

/** Undefined: the job has no environment. */
function poolOf({ spec }: TrainingJob): string | undefined {
  const environment = spec.job["environment"] as { pool?: string } | undefined;
  return environment && (environment.pool ?? DEFAULT_POOL);
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
