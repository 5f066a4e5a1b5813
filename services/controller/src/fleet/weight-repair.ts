// SPDX-License-Identifier: Apache-2.0
import type { Logger } from "@whetstone/telemetry";

/** Has a version that engines refuse written again, once: most often nothing but a file of it is damaged. */
export class WeightRepair {
  readonly #logger: Logger;
  #repair: { readonly of: string; readonly run: () => Promise<void> } | undefined;
  /** The version that a repair was begun of last. */
  #begun = "";
  #isRunning = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** What is served from now on, and how it is repaired; undefined: nobody can. */
  serve(of: string, run: (() => Promise<void>) | undefined): void {
    this.#repair = run && { of, run };
  }

  /** Engines refuse the version. @param onRepaired  called once it was written again. */
  refused(of: string, onRepaired: () => void): void {
    if (this.#isRunning || this.#repair?.of !== of || this.#begun === of) return;
    this.#begun = of;
    this.#isRunning = true;
    void this.#run(this.#repair.run, onRepaired);
  }

  /** While it runs no verdict on the version is final. */
  isRunning(of: string): boolean {
    return this.#isRunning && this.#begun === of;
  }

  async #run(run: () => Promise<void>, onRepaired: () => void): Promise<void> {
    try {
      await run();
      this.#logger.info("weights_repaired", { version: this.#begun });
      onRepaired();
    } catch (error) {
      this.#logger.warn("weights_not_repaired", { version: this.#begun, error });
    } finally {
      this.#isRunning = false;
    }
  }
}
