// SPDX-License-Identifier: Apache-2.0

/** Milliseconds of the machine's steady clock: the same in every thread, unlike `performance.now()`. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

const [ENDS, BEAT] = [0, 1] as const;

/** Until when a lead holds, and when the main loop last ran: seen by the thread that renews and by the one that acts. */
export class Term {
  readonly cells: BigInt64Array;

  constructor(cells: BigInt64Array = new BigInt64Array(new SharedArrayBuffer(16))) {
    this.cells = cells;
  }

  get endsAt(): number {
    return this.#read(ENDS);
  }

  set endsAt(ms: number) {
    this.#write(ENDS, ms);
  }

  get beatAt(): number {
    return this.#read(BEAT);
  }

  set beatAt(ms: number) {
    this.#write(BEAT, ms);
  }

  #read(cell: number): number {
    return Number(Atomics.load(this.cells, cell)) / 1000;
  }

  #write(cell: number, ms: number): void {
    Atomics.store(this.cells, cell, BigInt(Math.round(ms * 1000)));
  }
}
