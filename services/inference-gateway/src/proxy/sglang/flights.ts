// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { onAbort } from "@whetstone/core";

/** A request that SGLang works on, or that is held until it may begin. */
export interface Flight extends Disposable {
  /** SGLang's name for it, which no other request has: it refuses one that it has already. */
  readonly rid: string;
  /** Nobody waits any longer for what SGLang says of it. */
  readonly cut: AbortSignal;
  /** @param gone  of its caller @returns false: it was ended while it was held */
  mayBegin(gone: AbortSignal): Promise<boolean>;
}

interface Known {
  readonly rid: string;
  readonly stop: AbortController;
  readonly cut: AbortController;
}

// F1: while it is shut no request begins. F2: each one is known by the id that its caller gave until it has ended.
/** The requests under way. They wait here for the end of a pause, not in SGLang: so each has the label that it begins under. */
export class Flights {
  readonly #known = new Map<string, Set<Known>>();
  readonly #held = new Set<() => void>();
  #isShut = false;
  #drained: PromiseWithResolvers<void> | undefined;

  get held(): number {
    return this.#held.size;
  }

  /** Without those that are held. */
  get running(): number {
    return this.#all().length - this.#held.size;
  }

  get ids(): string[] {
    return [...this.#known.keys()];
  }

  shut(): void {
    this.#isShut = true;
  }

  open(): void {
    this.#isShut = false;
    for (const go of this.#held) go();
    this.#held.clear();
  }

  /** All that have begun are over. */
  async drained(): Promise<void> {
    if (this.running === 0) return;
    this.#drained ??= Promise.withResolvers();
    await this.#drained.promise;
  }

  enter(id: string): Flight {
    const known: Known = {
      rid: `${id}.${randomUUID().slice(0, 8)}`,
      stop: new AbortController(),
      cut: new AbortController(),
    };
    const others = this.#known.get(id) ?? new Set();
    this.#known.set(id, others.add(known));
    return {
      rid: known.rid,
      cut: known.cut.signal,
      mayBegin: (gone) => this.#turn(AbortSignal.any([gone, known.stop.signal])),
      [Symbol.dispose]: () => this.#leave(id, known),
    };
  }

  /** Ends those with that id which are held. @returns SGLang's names of all that have it */
  abort(id: string): string[] {
    const known = [...(this.#known.get(id) ?? [])];
    for (const { stop } of known) stop.abort();
    return known.map(({ rid }) => rid);
  }

  /** Those that have begun end now, whatever SGLang has to say of them. */
  cutAll(): void {
    for (const { cut } of this.#all()) cut.abort();
  }

  #all(): Known[] {
    return [...this.#known.values()].flatMap((known) => [...known]);
  }

  async #turn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (!this.#isShut) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const go = (): void => resolve(true);
    this.#held.add(go);
    const forget = onAbort(signal, () => {
      this.#held.delete(go);
      resolve(false);
    });
    return await promise.finally(forget);
  }

  #leave(id: string, known: Known): void {
    const others = this.#known.get(id);
    others?.delete(known);
    if (others?.size === 0) this.#known.delete(id);
    if (this.running > 0) return;
    this.#drained?.resolve();
    this.#drained = undefined;
  }
}
