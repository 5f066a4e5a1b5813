// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { EnvironmentModule, ModuleWanted } from "./environment-module.ts";

/** An env-runner that knows no code until it has got it, whole. */
class Runner {
  has = false;
  sent = 0;

  async reset(code: Uint8Array | undefined): Promise<string> {
    if (code !== undefined) this.sent += 1;
    await delay(5);
    if (code !== undefined) this.has = true;
    if (!this.has) throw new ModuleWanted("send it");
    return "observation";
  }
}

const module = (): EnvironmentModule => new EnvironmentModule({ digest: "d", code: new Uint8Array([1]) });

describe("a module that the env-runner may want", () => {
  it("is sent once, however many ask at the same time", async () => {
    const [runner, own] = [new Runner(), module()];
    const ask = (): Promise<string> => own.ask("r", (code) => runner.reset(code));
    const answers = await Promise.all(Array.from({ length: 500 }, ask));
    expect(new Set(answers)).toEqual(new Set(["observation"]));
    expect(runner.sent).toBe(1);
    runner.has = false; // It was restarted.
    await Promise.all(Array.from({ length: 50 }, ask));
    expect(runner.sent).toBe(2);
  });

  it("is sent by the next one when the first failed to", async () => {
    const [runner, own] = [new Runner(), module()];
    let failures = 1;
    const ask = (): Promise<string> =>
      own.ask("r", async (code) => {
        if (code !== undefined && failures-- > 0) throw new Error("no slot");
        return runner.reset(code);
      });
    const outcomes = await Promise.allSettled(Array.from({ length: 5 }, ask));
    expect(outcomes.map(({ status }) => status).sort()).toEqual([...Array<string>(4).fill("fulfilled"), "rejected"]);
  });

  it("is sent to each env-runner", async () => {
    const [one, other, own] = [new Runner(), new Runner(), module()];
    const asks = [one, other].flatMap((runner, i) =>
      Array.from({ length: 20 }, () => own.ask(`r${i}`, (code) => runner.reset(code))),
    );
    await Promise.all(asks);
    expect([one.sent, other.sent]).toEqual([1, 1]);
  });

  it("gives up on an env-runner that always wants it", async () => {
    const own = module();
    await expect(own.ask("r", () => Promise.reject(new ModuleWanted("again")))).rejects.toThrow("again");
  });
});
