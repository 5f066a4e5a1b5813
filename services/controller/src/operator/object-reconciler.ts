// SPDX-License-Identifier: Apache-2.0
/** What the controller of every kind does: hears of objects, looks at one at a time, writes its status, tells of it, ends. */
import {
  type Again,
  type Condition,
  type KubeObject,
  recordEvent,
  reflect,
  type Reflector,
  type ReflectOptions,
  type Reconciler,
  type ResourceType,
  runReconciler,
  type Stored,
} from "@whetstone/kube";
import { unlessGone } from "./gone.ts";
import type { OperatorParts } from "./parts.ts";
import { isSameStatus, mayWrite, QUIET_MS } from "./status-writes.ts";

interface WithStatus extends KubeObject {
  status?: { readonly conditions?: readonly Condition[] | undefined };
}

export interface Kind<T extends WithStatus> {
  /** For logs and metrics: `training-job`. */
  readonly name: string;
  readonly type: ResourceType<T>;
  /** Label selector; default: all of the kind. */
  readonly labels?: string;
  /** A finalizer of ours holds objects that are being deleted: they are looked at like others. */
  readonly isFinalized?: boolean;
}

export interface Look<T extends WithStatus> extends Again {
  /** The whole status: what is not in it is taken out of the object. Undefined: nothing is to be said. */
  readonly status?: T["status"] | undefined;
}

/** A cache that a look reads. */
interface Cache extends Disposable {
  readonly synced: Promise<void>;
}

/** The controller of a kind is a class derived from this one: it says what to watch, and what one look does. */
export abstract class ObjectReconciler<T extends WithStatus> implements AsyncDisposable {
  protected readonly parts: OperatorParts;
  protected readonly signal: AbortSignal;
  protected readonly objects: Reflector<T>;
  /** Disposed before the running looks are aborted and waited for. */
  protected readonly resources = new AsyncDisposableStack();
  readonly #kind: Kind<T>;
  readonly #reconciler: Reconciler;
  readonly #caches: Cache[] = [];
  readonly #wroteAt = new Map<string, number>();

  constructor(parts: OperatorParts, signal: AbortSignal, kind: Kind<T>) {
    this.parts = parts;
    this.signal = signal;
    this.#kind = kind;
    const { logger, metrics } = parts;
    const reconcile = (name: string, each: AbortSignal): Promise<Again | void> => this.#reconcile(name, each);
    this.#reconciler = runReconciler({ name: kind.name, reconcile, logger, metrics, signal });
    this.resources.defer(() => this.#reconciler.close());
    this.objects = this.watch(kind.type, { labels: kind.labels, onChange: (name) => this.enqueue(name) });
  }

  /** Brings the world nearer to what the object asks for, whatever is there now. */
  protected abstract look(object: Stored<T>, signal: AbortSignal): Promise<Look<T>>;

  /** The object is gone, or being deleted. What it owns is deleted by the garbage collector. */
  protected abstract forget(name: string, signal: AbortSignal): Promise<Again | void>;

  /** Its status was written. */
  protected told?(object: Stored<T>, status: NonNullable<T["status"]>): void;

  /** Nothing is decided before all caches are whole: a pod that is not seen yet would be made again. */
  async start(): Promise<void> {
    await this.#synced().catch((error: unknown) => {
      if (!this.signal.aborted) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resources.disposeAsync();
  }

  /** Keeps other objects in memory, too. */
  protected watch<U extends KubeObject>(type: ResourceType<U>, options: ReflectOptions<U>): Reflector<U> {
    return this.keep(reflect(this.parts.kube, type, { ...options, signal: this.signal }));
  }

  protected keep<C extends Cache>(cache: C): C {
    this.#caches.push(cache);
    return this.resources.use(cache);
  }

  protected enqueue(name: string, priority?: "normal" | "low"): void {
    if (name !== "") this.#reconciler.enqueue(name, priority);
  }

  protected enqueueAfter(name: string, ms: number): void {
    if (name !== "") this.#reconciler.enqueueAfter(name, ms);
  }

  protected names(): string[] {
    return this.objects.all().map(({ metadata }) => metadata.name);
  }

  protected tell(about: Stored<T>, reason: string, message: string, type?: "Normal" | "Warning"): void {
    recordEvent(this.parts.kube, about, { of: this.#kind.type, reason, message, ...(type && { type }) });
  }

  async #synced(): Promise<void> {
    await Promise.all(this.#caches.map(({ synced }) => synced));
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Again | void> {
    await this.#synced();
    const object = this.objects.get(name);
    const isGone = !object || (object.metadata.deletionTimestamp !== undefined && !this.#kind.isFinalized);
    if (isGone) {
      this.#wroteAt.delete(name);
      return await this.forget(name, signal);
    }
    const { status, requeueAfterMs = Infinity } = await this.look(object, signal);
    const laterMs = status ? await this.#writeStatus(object, status, signal) : Infinity;
    const nextMs = Math.min(requeueAfterMs, laterMs);
    return Number.isFinite(nextMs) ? { requeueAfterMs: nextMs } : undefined;
  }

  /** @returns when to write what is not worth a write yet */
  async #writeStatus(object: Stored<T>, status: NonNullable<T["status"]>, signal: AbortSignal): Promise<number> {
    const { name } = object.metadata;
    const { type } = this.#kind;
    if (isSameStatus(object.status, status)) return Infinity;
    const sinceMs = Date.now() - (this.#wroteAt.get(name) ?? 0);
    if (!mayWrite(object.status, status, sinceMs)) return QUIET_MS - sinceMs;
    this.#wroteAt.set(name, Date.now());
    await this.parts.kube.applyStatus<WithStatus>(type, { metadata: { name }, status }, { signal }).catch(unlessGone);
    this.told?.(object, status);
    return Infinity;
  }
}
