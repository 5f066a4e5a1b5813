// SPDX-License-Identifier: Apache-2.0
import { isAbort, sleep, WhetstoneError } from "@whetstone/core";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { type PolicyRecord, PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import type { ServedNameSchema } from "@whetstone/proto/inference/v1/inference";
import type { ServedVersion, Serving } from "@whetstone/proto/serving/v1/serving";
import type { Logger } from "@whetstone/telemetry";
import type { EngineFleet } from "../fleet/engine-fleet.ts";
import type { Gateways } from "../fleet/gateways/every-gateway.ts";
import type { AdapterKeeper, AdapterPolicy } from "../fleet/adapter-keeper.ts";
import type { FeedbackFiles } from "./feedback-files.ts";
import { newestOf } from "./serving-record.ts";

/** A gateway that was restarted knows its clients again within so long. */
const PASS_EVERY_MS = 1_000;
const TELL_MS = 5_000;
const LIST_MS = 5_000;
/** What clients are being answered by weights that are served no more. */
const FINISH_MS = 60_000;
const FINISH_LOOK_MS = 250;

export interface ServingKeeperDeps {
  readonly fleet: Pick<EngineFleet, "serve" | "leave" | "release">;
  readonly gateways: Pick<Gateways, "putServings" | "listEngines" | "takeFeedback">;
  readonly adapters: Pick<AdapterKeeper, "pass" | "end" | "failureOf">;
  readonly feedback: Pick<FeedbackFiles, "add">;
  servings(): Promise<Serving[]>;
  readonly logger: Logger;
}

/** Brings engines and gateways to what is to be served, and keeps them there. One runs at a time: the leader's. */
export class ServingKeeper {
  readonly #deps: ServingKeeperDeps;
  /** What engines were asked for, by policy; with its version and folder. */
  readonly #asked = new Map<string, string>();
  readonly #ending = new Set<string>();
  readonly #failures = new Map<string, string>();
  #looked = Promise.withResolvers<void>();

  constructor(deps: ServingKeeperDeps) {
    this.#deps = deps;
  }

  /** Resolves when it has looked at what is to be served for the first time since it runs, or runs no more. */
  get hasLooked(): Promise<void> {
    return this.#looked.promise;
  }

  /** Why engines do not take a policy. Undefined: nothing is known against it. */
  failureOf(policy: string): string | undefined {
    return this.#failures.get(policy) ?? this.#deps.adapters.failureOf(policy);
  }

  /** Until the signal aborts. @throws STALE_EPOCH when another controller has taken over */
  async run(signal: AbortSignal): Promise<void> {
    this.#looked = Promise.withResolvers();
    try {
      while (!signal.aborted) {
        await this.#pass(signal).catch((error: unknown) => this.#passFailed(error, signal));
        this.#looked.resolve();
        await sleep(PASS_EVERY_MS, signal).catch(() => undefined);
      }
    } finally {
      this.#looked.resolve();
      await this.#deps.adapters.end();
      await Promise.all(this.#asked.keys().map((policy) => this.#deps.fleet.leave(policy)));
      this.#asked.clear();
    }
  }

  #passFailed(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    if (error instanceof WhetstoneError && error.code === "STALE_EPOCH") throw error;
    this.#deps.logger.warn("servings_not_kept", { error });
  }

  async #pass(signal: AbortSignal): Promise<void> {
    const servings = await this.#deps.servings();
    const wanted = servings.flatMap(policiesOf);
    for (const { policy, weight } of wanted) this.#serve(policy, weight, signal);
    const { gateways } = this.#deps;
    if (servings.length > 0 || this.#asked.size > 0)
      await gateways.putServings(
        { servings: servings.map((one) => this.#toldOf(one)) },
        { signal, deadlineMs: TELL_MS },
      );
    await this.#deps.adapters.pass(servings.flatMap(adaptersOf), signal);
    const names = new Set(wanted.map(({ policy }) => policy.job));
    for (const policy of this.#asked.keys())
      if (!names.has(policy) && !this.#ending.has(policy)) void this.#end(policy, signal);
    // Last: a full disk holds up nothing else.
    if (servings.length > 0) await this.#storeFeedback(signal);
  }

  /** A canary that follows one which still ends gets no calls before engines have it. */
  #toldOf({ name, keys, canary }: Serving): MessageInitShape<typeof ServedNameSchema> {
    const told = { name, policy: policyOf(name), keys };
    const canaryPolicy = canaryPolicyOf(name);
    return canary && !this.#ending.has(canaryPolicy) ? { ...told, canaryPolicy, canaryPercent: canary.percent } : told;
  }

  /** Whoever gave it is told once it is stored. What comes meanwhile waits for the next pass: nobody can hold this one up. */
  async #storeFeedback(signal: AbortSignal): Promise<void> {
    const options = { signal, deadlineMs: TELL_MS };
    const { feedback } = await this.#deps.gateways.takeFeedback({}, options);
    if (feedback.length === 0) return;
    await this.#deps.feedback.add(feedback);
    await this.#deps.gateways.takeFeedback({ stored: feedback.map(({ id }) => id) }, options);
  }

  /** Engines are brought to it meanwhile; what fails is tried again by whoever keeps them there. */
  #serve(policy: PolicyRecord, weight: number, signal: AbortSignal): void {
    const key = `${policy.policyVersion} ${policy.path}`;
    if (this.#asked.get(policy.job) === key || this.#ending.has(policy.job)) return;
    this.#asked.set(policy.job, key);
    this.#failures.delete(policy.job);
    this.#deps.fleet.serve(policy, signal, { weight }).then(
      () => this.#failures.delete(policy.job),
      (error: unknown) => {
        if (isAbort(error)) return;
        this.#failures.set(policy.job, WhetstoneError.from(error).message);
        this.#deps.logger.warn("serving_failed", { policy: policy.job, error });
      },
    );
  }

  /** Gateways send no new calls to it by now; those that run end first. */
  async #end(policy: string, signal: AbortSignal): Promise<void> {
    this.#ending.add(policy);
    try {
      const until = performance.now() + FINISH_MS;
      while (performance.now() < until && (await this.#isBusy(policy, signal))) await sleep(FINISH_LOOK_MS, signal);
      await this.#deps.fleet.release(policy);
      this.#asked.delete(policy);
      this.#failures.delete(policy);
    } catch (error) {
      if (!signal.aborted) this.#deps.logger.warn("serving_not_ended", { policy, error });
    } finally {
      this.#ending.delete(policy);
    }
  }

  async #isBusy(policy: string, signal: AbortSignal): Promise<boolean> {
    const { engines, waitingCalls } = await this.#deps.gateways.listEngines({}, { signal, deadlineMs: LIST_MS });
    const running = engines.some((engine) => engine.policy?.policy === policy && engine.inFlight > 0);
    return running || (waitingCalls[policy] ?? 0) > 0;
  }
}

/** What engines know a serving's weights by. No job's name has a dot. */
export function policyOf(name: string): string {
  return `serve.${name}`;
}

export function canaryPolicyOf(name: string): string {
  return `${policyOf(name)}.canary`;
}

/** How many engines servings need at least: one for each that has weights of its own. */
export function enginesFor(servings: readonly Serving[]): number {
  return servings.flatMap(policiesOf).length;
}

function policiesOf(serving: Serving): { policy: PolicyRecord; weight: number }[] {
  const { name, weight, canary, beside } = serving;
  if (beside !== "") return [];
  const newest = { policy: recordOf(policyOf(name), newestOf(serving)), weight };
  // A canary has the engines that its share of the conversations needs, one at least.
  if (canary?.version === undefined) return [newest];
  const own = { policy: recordOf(canaryPolicyOf(name), canary.version), weight: (weight * canary.percent) / 100 };
  return [newest, own];
}

/** Of a serving beside another one: those of all conversations, and of its canary. */
function adaptersOf(serving: Serving): AdapterPolicy[] {
  const { name, canary, beside } = serving;
  if (beside === "") return [];
  const of = (policy: string, { version, path }: ServedVersion) => ({ policy, version, path, base: policyOf(beside) });
  const newest = of(policyOf(name), newestOf(serving));
  return canary?.version ? [newest, of(canaryPolicyOf(name), canary.version)] : [newest];
}

function recordOf(job: string, { version, path }: ServedVersion): PolicyRecord {
  return create(PolicyRecordSchema, { job, policyVersion: version, path });
}
