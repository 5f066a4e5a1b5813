// SPDX-License-Identifier: Apache-2.0
// Which engine gets a call. Holds no connection and no clock: adapters do the talking, callers bring the deadlines.
// I7: only an engine that was unfenced after verification is dispatched to. I8: both queues here are bounded.
import { ApiError } from "../completion/api-error.ts";
import type { CallScope } from "../completion/call-scope.ts";
import type { EngineEntry, Intake, Lease, ServedModel } from "./engine-entry.ts";
import { policiesOf, servedFor } from "./engine-entry.ts";
import { type Caller, FairQueue } from "./fair-queue.ts";

/** What a call needs of its engine. */
export interface Want {
  readonly policy: string;
  /** No engine with an older version will do: labels only grow within a session (I5). */
  readonly minVersion: bigint;
  /** The engine that has the session's prefix; "": none. */
  readonly preferId: string;
  readonly caller: Caller;
}

export interface FleetOptions {
  readonly maxInFlightPerEngine: number;
  /** Calls that may wait for one policy. */
  readonly maxWaiting: number;
  /** Of these, calls of one job. */
  readonly maxWaitingPerJob: number;
  /** Of these, calls of one session. */
  readonly maxWaitingPerSession: number;
  /** How many calls busier than the idlest engine a session's own engine may be and still be preferred. */
  readonly stickyTolerance: number;
}

/** Which bound a call was one too many for. */
export type Bound = "policy" | "job" | "session";

interface Waiter {
  readonly want: Want;
  readonly caller: Caller;
  readonly resolve: (lease: Lease) => void;
  readonly reject: (reason: Error) => void;
}

export class Fleet {
  readonly engines = new Map<string, EngineEntry>();
  /** Policies that some engine was given and that were not forgotten: their calls wait, also while no engine is there. */
  readonly #policies = new Set<string>();
  /** Calls that wait for an engine, by policy. */
  readonly #waiting = new Map<string, FairQueue<Waiter>>();
  /** Calls that run, by job. */
  readonly #running = new Map<string, number>();
  readonly #options: FleetOptions;
  /** Told of every engine that stops being trusted. */
  onQuarantine: (engine: EngineEntry) => void = () => undefined;
  /** Told of every call that may not wait. */
  onRefused: (bound: Bound) => void = () => undefined;
  readonly #drains = new Map<EngineEntry, Set<() => void>>();

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  /** Makes an engine known, fenced. An engine that comes back under another URL is a new one. */
  register(id: string, url: string, controlUrl = ""): EngineEntry {
    const known = this.engines.get(id);
    if (known?.url === url) {
      known.controlUrl = controlUrl;
      return known;
    }
    if (known !== undefined) this.quarantine(known, "replaced by a registration with another URL");
    const engine: EngineEntry = {
      id,
      url,
      controlUrl,
      state: "fenced",
      adapters: new Map(),
      reason: "",
      maxModelLen: 0,
      takesImages: false,
      leases: new Set(),
    };
    this.engines.set(id, engine);
    return engine;
  }

  /** Takes an engine out: it gets no new calls and is listed no more. What runs there goes on until it is revoked. */
  remove(id: string): EngineEntry | undefined {
    const engine = this.engines.get(id);
    if (engine === undefined) return undefined;
    this.fence(engine);
    this.engines.delete(id);
    return engine;
  }

  /** Stops dispatching. What runs there goes on: the engine's own pause ends it. A quarantine stays one. */
  fence(engine: EngineEntry): void {
    if (engine.state === "serving") engine.state = "fenced";
  }

  /** Dispatches again, under a label that the caller has verified. */
  unfence(engine: EngineEntry, served: ServedModel, { maxModelLen, images }: Intake): void {
    engine.served = served;
    // It may have been started again: whoever put them there does so anew. Calls for them wait so long.
    engine.adapters = new Map();
    this.#policies.add(served.policy);
    engine.maxModelLen = maxModelLen;
    engine.takesImages = images;
    engine.reason = "";
    engine.state = "serving";
    this.#dispatchWaiting(served.policy);
  }

  /** What an engine answers for beside its own policy, in place of what it was told before. */
  putAdapters(engine: EngineEntry, adapters: readonly ServedModel[]): void {
    const former = engine.adapters;
    engine.adapters = new Map(adapters.map((each) => [each.policy, each]));
    for (const policy of engine.adapters.keys()) this.#policies.add(policy);
    for (const policy of former.keys()) if (!this.#isHeld(policy)) this.#policies.delete(policy);
    for (const policy of engine.adapters.keys()) this.#dispatchWaiting(policy);
  }

  /** The engine broke a promise: what runs there is taken back, and nothing goes there until it is unfenced. */
  quarantine(engine: EngineEntry, reason: string): void {
    const known = engine.state === "quarantined";
    engine.state = "quarantined";
    engine.reason ||= reason;
    if (!known) this.onQuarantine(engine);
    this.revokeAll(engine);
  }

  /** Ends the attempts that run on an engine; their calls are resubmitted. */
  revokeAll(engine: EngineEntry): void {
    for (const lease of [...engine.leases]) lease.revoke?.();
  }

  /**
   * An engine for a call: the session's own while it is not much busier than the idlest, else the idlest. Waits while
   * none has room; how long is the scope's business.
   * @throws ApiError 404 or 503 when no engine was ever given the policy, 429 when too many calls wait already, of all or of the same job or session.
   */
  acquire(want: Want, scope: CallScope): Lease | Promise<Lease> {
    const engine = this.#pick(want);
    if (engine !== undefined) return this.#lease(engine, want);
    if (!this.serves(want.policy)) throw this.unknownPolicy(want.policy);
    return this.#wait(want, scope);
  }

  /** Gives the engine back and hands it to the next waiting call. */
  release(lease: Lease): void {
    const { engine, caller } = lease;
    if (engine.leases.delete(lease)) this.#countRunning(caller, -1);
    for (const notify of this.#drains.get(engine) ?? []) notify();
    if (engine.state !== "serving" || this.#waiting.size === 0) return;
    this.#dispatchWaiting(lease.served.policy);
    for (const policy of policiesOf(engine)) if (policy !== lease.served.policy) this.#dispatchWaiting(policy);
  }

  /** Calls `listener` after each answer of an engine, until the returned function is called. */
  onRelease(engine: EngineEntry, listener: () => void): () => void {
    const listeners = this.#drains.get(engine) ?? new Set();
    this.#drains.set(engine, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#drains.delete(engine);
    };
  }

  /** Some engine was given the policy, even if it takes no calls now, or has left. */
  serves(policy: string): boolean {
    return this.#policies.has(policy);
  }

  /** Some engine takes calls for the policy now. */
  isServed(policy: string): boolean {
    return this.engines.values().some((engine) => engine.state === "serving" && servedFor(engine, policy));
  }

  /** Longest prompt and completion together that the policy's engines take, tokens; 0: none has said. */
  contextOf(policy: string): number {
    let longest = 0;
    for (const engine of this.engines.values())
      if (servedFor(engine, policy)) longest = Math.max(longest, engine.maxModelLen);
    return longest;
  }

  /** Every engine that the policy has takes pictures: a call may go to any of them. */
  takesImages(policy: string): boolean {
    const own = [...this.engines.values()].filter((engine) => servedFor(engine, policy));
    return own.length > 0 && own.every(({ takesImages }) => takesImages);
  }

  /** The longest of all policies; 0: some engine has not said, or takes pictures, whose bodies are longer than their tokens tell. */
  longestContext(): number {
    const serving = [...this.engines.values()].filter(({ served }) => served !== undefined);
    if (serving.some(({ takesImages }) => takesImages)) return 0;
    const lengths = serving.map(({ maxModelLen }) => maxModelLen);
    return lengths.includes(0) ? 0 : Math.max(0, ...lengths);
  }

  #isHeld(policy: string): boolean {
    return this.engines.values().some((engine) => servedFor(engine, policy));
  }

  /** Takes a policy from the engines that have it; they are fenced until they are given another. Who waits is told. */
  forget(policy: string): void {
    this.#policies.delete(policy);
    for (const engine of this.engines.values()) {
      if (engine.adapters.has(policy))
        engine.adapters = new Map([...engine.adapters].filter(([each]) => each !== policy));
      if (engine.served?.policy !== policy) continue;
      this.fence(engine);
      engine.served = undefined;
    }
    for (const waiter of this.#waiting.get(policy) ?? []) waiter.reject(this.unknownPolicy(policy));
    this.#waiting.delete(policy);
  }

  /** How many calls wait, by policy. */
  waiting(): Map<string, number> {
    return new Map([...this.#waiting].map(([policy, waiters]) => [policy, waiters.size]));
  }

  /** How many calls wait, of all policies. */
  waitingCalls(): number {
    return this.#waiting.values().reduce((sum, waiters) => sum + waiters.size, 0);
  }

  /** What to answer to a call for a policy that no engine has. */
  unknownPolicy(policy: string): ApiError {
    const unknown = this.engines.size === 0 || this.engines.values().some((engine) => engine.served === undefined);
    const message = `no engine serves the policy "${policy}"`;
    // After a restart engines wait for the controller, or come from it; the policy may be one of theirs.
    if (unknown)
      return new ApiError("UNAVAILABLE", "policy_not_ready", `${message} yet`, { param: "model", retryAfterS: 1 });
    return new ApiError("NOT_FOUND", "model_not_found", `${message}; see GET /v1/models`, { param: "model" });
  }

  #pick(want: Want): EngineEntry | undefined {
    let idlest: EngineEntry | undefined;
    let preferred: EngineEntry | undefined;
    for (const engine of this.engines.values()) {
      if (!this.#takes(engine, want)) continue;
      if (idlest === undefined || engine.leases.size < idlest.leases.size) idlest = engine;
      if (engine.id === want.preferId) preferred = engine;
    }
    if (preferred === undefined || idlest === undefined) return idlest;
    return preferred.leases.size - idlest.leases.size <= this.#options.stickyTolerance ? preferred : idlest;
  }

  #takes(engine: EngineEntry, want: Pick<Want, "policy" | "minVersion">): boolean {
    const served = servedFor(engine, want.policy);
    return (
      engine.state === "serving" &&
      served !== undefined &&
      served.version >= want.minVersion &&
      engine.leases.size < this.#options.maxInFlightPerEngine
    );
  }

  #lease(engine: EngineEntry, { policy, caller }: Want): Lease {
    const served = servedFor(engine, policy);
    if (served === undefined) throw new Error(`engine ${engine.id} does not serve ${policy}`);
    const lease: Lease = { engine, served, caller };
    engine.leases.add(lease);
    this.#countRunning(caller, 1);
    return lease;
  }

  #countRunning({ job }: Caller, change: number): void {
    const running = (this.#running.get(job) ?? 0) + change;
    if (running > 0) this.#running.set(job, running);
    else this.#running.delete(job);
  }

  #wait(want: Want, scope: CallScope): Promise<Lease> {
    const waiters = this.#waiting.get(want.policy) ?? new FairQueue<Waiter>();
    this.#refuseTooMany(want, waiters);
    this.#waiting.set(want.policy, waiters);
    const { promise, resolve, reject } = Promise.withResolvers<Lease>();
    const waiter: Waiter = { want, caller: want.caller, resolve, reject };
    waiters.add(waiter);
    scope.onCancel(() => {
      this.#leaveQueue(waiter);
      reject(scope.reason ?? new Error("cancelled without a reason"));
    });
    return promise;
  }

  /** @throws ApiError 429 */
  #refuseTooMany({ policy, caller }: Want, waiters: FairQueue<Waiter>): void {
    const { maxWaiting, maxWaitingPerJob, maxWaitingPerSession } = this.#options;
    const [ofJob, ofSession] = [waiters.ofJob(caller), waiters.ofSession(caller)];
    const refuse = (bound: Bound, message: string): void => {
      this.onRefused(bound);
      throw new ApiError("RESOURCE_EXHAUSTED", "queue_full", message, { retryAfterS: 1 });
    };
    if (caller.session !== "" && ofSession >= maxWaitingPerSession)
      refuse("session", `${ofSession} calls of this session wait already`);
    if (ofJob >= maxWaitingPerJob) refuse("job", `${ofJob} calls ${ofWhom(caller)} wait already`);
    if (waiters.size >= maxWaiting) refuse("policy", `${waiters.size} calls wait for the policy "${policy}" already`);
  }

  /** As the queue says; a call that needs a newer version lets those behind it pass. */
  #dispatchWaiting(policy: string): void {
    for (const waiter of this.#waiting.get(policy)?.inTurn((job) => this.#running.get(job) ?? 0) ?? []) {
      // Most releases make room for one call; the thousands behind it need not be looked at.
      if (!this.#hasRoom(policy)) return;
      const engine = this.#pick(waiter.want);
      if (engine === undefined) continue;
      this.#leaveQueue(waiter);
      waiter.resolve(this.#lease(engine, waiter.want));
    }
  }

  #hasRoom(policy: string): boolean {
    return this.engines.values().some((engine) => this.#takes(engine, { policy, minVersion: -1n }));
  }

  #leaveQueue(waiter: Waiter): void {
    const { policy } = waiter.want;
    const waiters = this.#waiting.get(policy);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#waiting.delete(policy);
  }
}

function ofWhom({ job, session }: Caller): string {
  return session === "" ? "without a session" : `of ${JSON.stringify(job)}`;
}
