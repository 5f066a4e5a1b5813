// SPDX-License-Identifier: Apache-2.0
/** What is checked: an environment that can be opened many times. */
import { WhetstoneError, withTimeout } from "@whetstone/core";
import { type Environment, isDone, type StepResult } from "@whetstone/sdk";

/** A session with it. */
export interface Session extends Environment {
  /** Leaves without a word, as a client that dies. */
  abandon(): void;
}

export interface Subject {
  readonly open: () => Session;
  /** Sessions that the server says are open. Absent: it does not say. */
  readonly openSessions?: () => Promise<number>;
  /** Whether it says that a seed decides its episodes. Absent: it does not say. */
  readonly seedable?: boolean;
}

export interface CheckSettings {
  /** Taken in turns. */
  readonly actions: readonly unknown[];
  readonly seed: number;
  /** Most steps of one episode. */
  readonly steps: number;
  /** Sessions at once. */
  readonly sessions: number;
  /** Of one reset, step or close. */
  readonly timeoutMs: number;
}

/** What a session said, in order; a call that failed is its error's text. */
export type Transcript = readonly string[];

/** A session whose calls are bounded. */
export class Played {
  readonly session: Session;
  readonly said: string[] = [];
  last: StepResult | undefined;
  slowestMs = 0;
  readonly #settings: CheckSettings;

  constructor(subject: Subject, settings: CheckSettings) {
    this.session = subject.open();
    this.#settings = settings;
  }

  async reset(seed: number): Promise<void> {
    const { observation } = await this.bounded("reset", this.session.reset({ seed }));
    this.said.push(JSON.stringify({ observation }));
  }

  /** The next of the settings' actions, or the given one. */
  async step(action: unknown = this.#next()): Promise<StepResult> {
    const result = await this.bounded("step", this.session.step(action, {}));
    const { observation, reward, terminated, truncated } = result;
    this.said.push(JSON.stringify({ observation, reward, terminated, truncated }));
    return (this.last = result);
  }

  get isOver(): boolean {
    return this.last !== undefined && isDone(this.last);
  }

  close(): Promise<void> {
    return this.bounded("close", this.session.close());
  }

  async bounded<T>(call: string, work: T | Promise<T>): Promise<T> {
    const startedMs = performance.now();
    const { timeoutMs } = this.#settings;
    try {
      return await withTimeout(() => Promise.resolve(work), { timeoutMs });
    } catch (error) {
      throw new Error(`${call}: ${WhetstoneError.from(error).message}`, { cause: error });
    } finally {
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs);
    }
  }

  #next(): unknown {
    const { actions } = this.#settings;
    return actions[(this.said.length - 1) % actions.length];
  }
}

/** A whole episode, or as much of it as the settings allow. */
export async function playEpisode(subject: Subject, settings: CheckSettings, seed = settings.seed): Promise<Played> {
  const played = new Played(subject, settings);
  try {
    await played.reset(seed);
    for (let i = 0; i < settings.steps && !played.isOver; i += 1) await played.step();
  } catch (error) {
    played.session.abandon();
    throw error;
  }
  await played.close();
  return played;
}
