// SPDX-License-Identifier: Apache-2.0
import { BaseAgent } from "../base-agent.ts";
import { createTrajectory, type Info, type Step, type Trajectory } from "../types.ts";

/** What can be committed: an agent's trajectory, a trajectory, or steps. */
export type Committable = BaseAgent | Trajectory | readonly Step[];

/** The trajectories of one workflow, in the order in which they were committed. */
export class TrajectoryBook<Owner> {
  readonly #owner: Owner;
  readonly #nextUid: () => string;
  readonly #entries = new Map<Trajectory, Owner>();
  /** A step is in one trajectory only. */
  readonly #taken = new Set<Step>();
  readonly #asked: { readonly role: string; readonly step: Step }[] = [];
  readonly #answered = new Set<Step>();

  /** @param nextUid  unique in the episode, over all its workflows. */
  constructor(owner: Owner, nextUid: () => string) {
    this.#owner = owner;
    this.#nextUid = nextUid;
  }

  /** Notes a call, in order of asking. */
  asked(role: string, step: Step): void {
    this.#asked.push({ role, step });
  }

  answered(step: Step): void {
    this.#answered.add(step);
  }

  /** The steps are the very ones given: rewards may still be written to them. */
  commit(role: string, what: Committable, reward?: number): Trajectory {
    const { steps, info } = read(what);
    const last = steps.at(-1);
    if (last === undefined) return createTrajectory({ name: role, info });
    const trajectory = createTrajectory({ uid: this.#nextUid(), name: role, steps: [...steps], info });
    for (const step of steps) this.#taken.add(step);
    if (reward !== undefined) last.reward = reward;
    this.#entries.set(trajectory, this.#owner);
    return trajectory;
  }

  /** A sub-workflow's, as they are. */
  join(book: TrajectoryBook<Owner>): void {
    for (const [trajectory, owner] of book.#entries) this.#entries.set(trajectory, owner);
  }

  /** The workflow that committed it. */
  ownerOf(trajectory: Trajectory): Owner {
    return this.#entries.get(trajectory) ?? this.#owner;
  }

  isTaken(steps: readonly Step[]): boolean {
    return steps.every((step) => this.#taken.has(step));
  }

  /** Commits the calls that are in no trajectory yet, one trajectory a role. @returns all trajectories. */
  collect(): Trajectory[] {
    const left = this.#asked.filter(({ step }) => this.#answered.has(step) && !this.#taken.has(step));
    for (const [role, calls] of Map.groupBy(left, (call) => call.role)) {
      const steps = calls.map(({ step }) => step);
      this.commit(role, steps);
    }
    return [...this.#entries.keys()];
  }
}

function read(what: Committable): { readonly steps: readonly Step[]; readonly info: Info } {
  if (what instanceof BaseAgent) return what.trajectory;
  return "steps" in what ? what : { steps: what, info: {} };
}
