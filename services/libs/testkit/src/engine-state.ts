// SPDX-License-Identifier: Apache-2.0
import type { EngineAnswer } from "./engine-script.ts";

export interface VersionSpan {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

/** One generate request between arrival and its last token. */
export interface Generation {
  readonly id: string;
  /** Tokens emitted so far, with the labels they were emitted under. */
  emitted: number;
  readonly spans: VersionSpan[];
  aborted: boolean;
  started: boolean;
}

/** What the engine remembers, and the waits that its switches end. E1: between pause and resume nothing is emitted. */
export class EngineState {
  label: string;
  weightsPath: string | undefined;
  paused = false;
  readonly running = new Map<string, Generation>();
  tokensGenerated = 0;
  readonly #changed = new Set<() => void>();

  constructor(label: string) {
    this.label = label;
  }

  /** Wakes everybody who waits for a change. */
  change(): void {
    for (const wake of [...this.#changed]) wake();
  }

  /** Resolves at the next change. */
  changed(): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#changed.delete(wake);
        resolve();
      };
      this.#changed.add(wake);
    });
  }

  begin(id: string): Generation {
    const generation: Generation = { id, emitted: 0, spans: [], aborted: false, started: false };
    this.running.set(id, generation);
    return generation;
  }

  end(generation: Generation): void {
    if (this.running.get(generation.id) === generation) this.running.delete(generation.id);
    this.change();
  }

  abort(generations: Iterable<Generation>): number {
    let count = 0;
    for (const generation of generations) {
      generation.aborted = true;
      count += 1;
    }
    this.change();
    return count;
  }

  /** Books one token under the present label. */
  emit(generation: Generation): void {
    const last = generation.spans.at(-1);
    const index = generation.emitted;
    if (last?.version === this.label) generation.spans[generation.spans.length - 1] = { ...last, end: index + 1 };
    else generation.spans.push({ version: this.label, start: index, end: index + 1 });
    generation.emitted += 1;
    this.tokensGenerated += 1;
  }
}

export function finishReason(answer: EngineAnswer, maxTokens: number): string {
  return answer.finishReason ?? (answer.tokenIds.length >= maxTokens ? "length" : "stop");
}
