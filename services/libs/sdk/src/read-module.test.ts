// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent } from "../test-support/stand-ins.ts";
import { BaseAgent, defineAgent, defineEnvironment, defineRollout, readModule, Workflow } from "./index.ts";
import { asRegisteredActor, asRegisteredAgent } from "./read-module.ts";

class Debate extends Workflow {
  readonly rounds: number;
  constructor({ rounds }: { rounds: number }) {
    super();
    this.rounds = rounds;
  }
  run(): void {}
}

describe("readModule", () => {
  it("finds definitions and classes, by their forms", () => {
    const env = defineEnvironment({ kind: "count", create: () => new CountingEnv() });
    const rollout = defineRollout({ kind: "one", run: () => 1 });
    const { actors, environments } = readModule({
      env,
      rollout,
      Debate,
      EchoAgent,
      helper: () => 1,
      text: "x",
      no: null,
    });
    expect(actors.map(({ form, kind }) => [form, kind])).toEqual([
      ["rollout", "one"],
      ["workflow", "Debate"],
      ["agent", "EchoAgent"],
    ]);
    expect(environments).toEqual([env]);
  });

  it("looks into an exported job, and takes the same thing once", () => {
    const job = { name: "j", actors: [asRegisteredActor(Debate)], environments: [CountingEnv] };
    const { actors, environments } = readModule({ default: job, Debate, Again: Debate });
    expect([actors.length, environments.map(({ kind }) => kind)]).toEqual([1, ["CountingEnv"]]);
  });

  it("does not take the base classes for definitions", () => {
    expect(readModule({ BaseAgent, Workflow })).toEqual({ actors: [], environments: [] });
  });

  it("refuses two things of one kind", () => {
    const twin = (): unknown => defineAgent({ kind: "twin", create: () => new EchoAgent() });
    expect(() => readModule({ a: twin(), b: twin() })).toThrow(/two actors of kind "twin"/);
  });
});

describe("class shorthand", () => {
  it("gives the class the job's arguments", () => {
    expect(asRegisteredActor(Debate).create({ rounds: 3 })).toMatchObject({ rounds: 3 });
  });

  it("leaves a definition as it is, and refuses other classes", () => {
    const agent = defineAgent({ kind: "echo", create: () => new EchoAgent() });
    expect([asRegisteredActor(agent), asRegisteredAgent(agent)]).toEqual([agent, agent]);
    expect(() => asRegisteredActor(Map as never)).toThrow(/Map must extend/);
    expect(() => asRegisteredActor(class extends EchoAgent {})).toThrow(/without a name/);
  });
});
