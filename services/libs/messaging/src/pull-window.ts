// SPDX-License-Identifier: Apache-2.0

/** How many tasks a puller may have handed out and not settled, where that changes while it pulls. For one puller. */
export class PullWindow {
  #size: number;
  #onGrow: () => void = () => undefined;

  constructor(size: number) {
    this.#size = size;
  }

  get size(): number {
    return this.#size;
  }

  /** Growing asks the server for more at once; shrinking takes nothing back. */
  resize(size: number): void {
    const grows = size > this.#size;
    this.#size = size;
    if (grows) this.#onGrow();
  }

  /** For the puller. */
  listen(onGrow: () => void): void {
    this.#onGrow = onGrow;
  }
}
