// SPDX-License-Identifier: Apache-2.0
// Every way to fail × every phase of a workflow: class, phase, retry, and that all that was opened is closed.
import { type Clock, sleep, systemClock } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, hang, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentWorkflowEngine,
  type AgentWorkflowEngineOptions,
  type Episode,
  EpisodeError,
  type Phase,
  Workflow,
  type WorkflowContext,
} from "../index.ts";

const impatient: Clock = { ...systemClock, sleep: (_ms, signal) => sleep(0, signal) };
const BOUND_MS = 30;

type Fault = () => unknown;
type Struck = Exclude<Phase, "close"> | "close" | "open";

/** Opened, reset, asked, stepped, graded, closed; the fault strikes in one of them. */
class Environment extends CountingEnv {
  readonly #strikes: (phase: Struck) => unknown;
  constructor(strikes: (phase: Struck) => unknown) {
    super(1);
    this.#strikes = strikes;
  }
  override async reset() {
    await this.#strikes("reset");
    return super.reset();
  }
  override async step(action: unknown) {
    await this.#strikes("step");
    return super.step(action);
  }
  override async computeFinalReward() {
    await this.#strikes("reward");
    return 1;
  }
  override async close() {
    await super.close();
    await this.#strikes("close");
  }
}

class ByHand extends Workflow {
  async run(_task: unknown, { openEnvironment }: WorkflowContext): Promise<void> {
    const environment = await openEnvironment();
    await environment.reset();
    const { step, text } = await this.chat("agent", [{ role: "user", content: "?" }]);
    await environment.step(text);
    step.reward = (await environment.finalReward()) ?? 0;
  }
}

class ByAgent extends Workflow {
  async run(): Promise<void> {
    await this.playAgent(new EchoAgent());
  }
}

const WAYS = [
  ["by hand", ByHand],
  ["by an agent", ByAgent],
] as const;

interface Played {
  readonly episode: Episode;
  readonly made: readonly CountingEnv[];
}

async function play(
  workflow: AgentWorkflowEngineOptions["workflow"],
  phase: Struck,
  fault: Fault,
  options: Partial<AgentWorkflowEngineOptions> = {},
): Promise<Played> {
  const made: CountingEnv[] = [];
  const strikes = (now: Struck): unknown => (now === phase ? fault() : undefined);
  const environmentFactory = async () => {
    await strikes("open");
    const environment = new Environment(strikes);
    made.push(environment);
    return environment;
  };
  const rolloutClient = new ScriptedClient(async () => (await strikes("model"), {}));
  const common = { rolloutClient, environmentFactory, workflow, clock: impatient, closeTimeoutMs: BOUND_MS };
  const engine = new AgentWorkflowEngine({ ...common, ...options });
  return { episode: await engine.runEpisode({ id: "t:0", task: { id: "t", payload: {} }, seed: 1 }), made };
}

const CLASS_OF_PHASE = {
  open: "ENVIRONMENT",
  reset: "ENVIRONMENT",
  model: "INFRASTRUCTURE",
  step: "ENVIRONMENT",
} as const;
const PHASES = ["open", "reset", "model", "step", "reward"] as const;
const RETRIED = new Set(["ENVIRONMENT", "INFRASTRUCTURE", "GRADER"]);
const classOf = (phase: Struck): string => (CLASS_OF_PHASE as Partial<Record<Struck, string>>)[phase] ?? "GRADER";
const placeOf = (phase: Struck): string => (phase === "open" ? "reset" : phase);
const matrix = WAYS.flatMap(([name, workflow]) => PHASES.map((phase) => ({ name, workflow, phase })));

function expectClosed({ made }: Played): void {
  expect(made.map(({ closed }) => closed)).toEqual(made.map(() => 1));
}

describe.each(matrix)("$name, in $phase", ({ workflow, phase }) => {
  it("an unknown error has the phase's class", async () => {
    const played = await play(workflow, phase, () => Promise.reject(new Error("broke")));
    expect(played.episode).toMatchObject({
      terminationReason: "ERROR",
      failure: { class: classOf(phase), phase: placeOf(phase), message: "broke" },
      tries: 3,
    });
    expectClosed(played);
  });

  it.each(["TASK", "ENVIRONMENT", "INFRASTRUCTURE", "GRADER", "POLICY"] as const)(
    "a known %s stays one",
    async (own) => {
      const played = await play(workflow, phase, () => Promise.reject(new EpisodeError(own, "known")));
      const { failure, tries } = played.episode;
      expect([failure.class, failure.phase, tries]).toEqual([own, placeOf(phase), RETRIED.has(own) ? 3 : 1]);
      expectClosed(played);
    },
  );

  it("hanging past the phase's own bound is that phase's failure", async () => {
    const phaseTimeoutsMs = { [placeOf(phase)]: BOUND_MS };
    const played = await play(workflow, phase, hang, { phaseTimeoutsMs, retryLimit: 1 });
    expect(played.episode).toMatchObject({ failure: { class: classOf(phase), phase: placeOf(phase) }, tries: 2 });
    expectClosed(played);
  });

  it("hanging for ever is ended by the deadline", async () => {
    const played = await play(workflow, phase, hang, { trajectoryTimeoutMs: BOUND_MS });
    expect(played.episode).toMatchObject({
      terminationReason: "DEADLINE",
      failure: { class: "DEADLINE", phase: placeOf(phase) },
      tries: 1,
    });
    expectClosed(played);
  });
});

describe.each(WAYS)("%s, closing", (_name, workflow) => {
  it.each([
    ["throws", () => Promise.reject(new Error("stuck"))],
    ["hangs", hang],
  ])("that %s is told, and the result stands", async (_how, fault) => {
    const { episode } = await play(workflow, "close", fault);
    expect(episode).toMatchObject({
      terminationReason: "ENV_DONE",
      reward: 1,
      failure: { class: "NONE", phase: "close" },
    });
  });
});

describe("the bound of a reset", () => {
  it.each(WAYS)("holds for opening and resetting together: %s", async (_name, workflow) => {
    const slow = (): Promise<void> => sleep(35);
    const options = { phaseTimeoutsMs: { reset: 60 }, retryLimit: 0 };
    const both = new AgentWorkflowEngine({
      ...{ workflow, rolloutClient: new ScriptedClient(), ...options },
      environmentFactory: async () => {
        await slow();
        return new Environment((phase) => (phase === "reset" ? slow() : undefined));
      },
    });
    const episode = await both.runEpisode({ id: "t:0", task: { id: "t", payload: {} }, seed: 1 });
    expect(episode.failure).toMatchObject({ class: "ENVIRONMENT", phase: "reset" });
    expect((await play(workflow, "reset", slow, options)).episode.failure.class).toBe("NONE");
  });
});
