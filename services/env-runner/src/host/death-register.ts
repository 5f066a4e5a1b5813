// SPDX-License-Identifier: Apache-2.0

const KEPT = 20_000;

/** How many processes have died with an episode's environment inside: suspects play apart from the others when they come again. */
export class DeathRegister {
  /** The oldest first. */
  readonly #deaths = new Map<string, number>();

  of(episodeId: string): number {
    return this.#deaths.get(episodeId) ?? 0;
  }

  note(episodeId: string): void {
    const deaths = this.of(episodeId) + 1;
    this.#deaths.delete(episodeId);
    this.#deaths.set(episodeId, deaths);
    if (this.#deaths.size <= KEPT) return;
    const [oldest] = this.#deaths.keys();
    this.#deaths.delete(oldest as string);
  }
}
