// SPDX-License-Identifier: Apache-2.0
import { type Engine, EngineState } from "@whetstone/proto/inference/v1/inference";

/** A job that wants engines. */
export interface Sharer {
  readonly name: string;
  /** Above 0. */
  readonly weight: number;
}

type Known = Pick<Engine, "id" | "state" | "policy">;

/**
 * Which job's policy each engine is for. Jobs share the engines by weight, an engine each at least as long as there are enough:
 * then those that came first have one. An engine stays where it is unless another job has too few.
 */
export class EngineShares {
  /** Jobs by engine. */
  #shares: ReadonlyMap<string, string> = new Map();

  of(engine: string): string | undefined {
    return this.#shares.get(engine);
  }

  /**
   * @param jobs  in order of arrival
   * @param isFailing  of an engine that does not take what it is given: it stays where it is, and counts for nobody
   */
  update(engines: readonly Known[], jobs: readonly Sharer[], isFailing: (engine: string) => boolean): void {
    const able = engines.filter(({ id }) => !isFailing(id)).sort((a, b) => this.#order(a) - this.#order(b));
    const left = countsByWeight(able.length, jobs);
    const shares = new Map<string, string>();
    const give = (engine: Known, job: string | undefined): void => {
      const free = left.get(job ?? "") ?? 0;
      if (job === undefined || free === 0 || shares.has(engine.id)) return;
      shares.set(engine.id, job);
      left.set(job, free - 1);
    };
    for (const engine of able) give(engine, this.#holder(engine));
    for (const engine of able) give(engine, jobs.find(({ name }) => left.get(name))?.name);
    for (const engine of engines.filter(({ id }) => isFailing(id))) {
      const holder = jobs.find(({ name }) => name === this.#holder(engine)) ?? jobs[0];
      if (holder) shares.set(engine.id, holder.name);
    }
    this.#shares = shares;
  }

  #holder({ id, policy }: Known): string | undefined {
    return this.#shares.get(id) ?? policy?.policy;
  }

  /** A job that has to give some up keeps those that serve it. */
  #order(engine: Known): number {
    return engine.state === EngineState.SERVING && engine.policy?.policy === this.#holder(engine) ? 0 : 1;
  }
}

/** One each, and each further one to whom its share is furthest above what it has (D'Hondt's method). */
function countsByWeight(engines: number, jobs: readonly Sharer[]): Map<string, number> {
  const counts = new Map(jobs.map(({ name }, index) => [name, index < engines ? 1 : 0]));
  const quotient = ({ name, weight }: Sharer): number => weight / ((counts.get(name) ?? 0) + 1);
  for (let free = engines - jobs.length; free > 0 && jobs.length > 0; free--) {
    const next = jobs.reduce((best, job) => (quotient(job) > quotient(best) ? job : best));
    counts.set(next.name, (counts.get(next.name) ?? 0) + 1);
  }
  return counts;
}
