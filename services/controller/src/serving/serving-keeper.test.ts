// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { silentLogger as logger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { ServingKeeper, type ServingKeeperDeps } from "./serving-keeper.ts";
import { changeServing, newServing } from "./serving-record.ts";

const serving = newServing({ name: "bot", weight: 1, keys: [] }, { path: "/w/1" });

function keeperWith(gateways: Partial<ServingKeeperDeps["gateways"]>, add = (): Promise<void> => Promise.resolve()) {
  const calls: string[] = [];
  const did = (call: string) => (policy: string) => {
    calls.push(`${call} ${policy}`);
    return Promise.resolve();
  };
  const keeper = new ServingKeeper({
    logger,
    servings: () => Promise.resolve([serving]),
    feedback: { add },
    adapters: {
      pass: () => Promise.resolve(),
      end: () => Promise.resolve(),
      failureOf: () => undefined,
    },
    fleet: {
      serve: (policy) => {
        calls.push(`serve ${policy.job}:${policy.policyVersion}`);
        return Promise.resolve(1);
      },
      leave: did("leave"),
      release: did("release"),
    },
    gateways: {
      putServings: () => Promise.resolve({} as never),
      listEngines: () => Promise.resolve({ engines: [], waitingCalls: {} } as never),
      takeFeedback: () => Promise.resolve({ feedback: [] } as never),
      ...gateways,
    },
  });
  return { keeper, calls };
}

it("ends when another controller leads, and lets go of whoever waits for its first look", async () => {
  const stale = new WhetstoneError("STALE_EPOCH", "another one leads");
  const { keeper, calls } = keeperWith({ putServings: () => Promise.reject(stale) });
  const over = keeper.run(new AbortController().signal);
  await expect(over).rejects.toThrow("another one leads");
  await keeper.hasLooked;
  expect(calls).toEqual(["serve serve.bot:1", "leave serve.bot"]);
});

it("brings policies about and ends them though feedback cannot be stored", async () => {
  const said = { feedback: [{ id: "f-0", serving: "bot", task: "{}" }] };
  const full = (): Promise<never> => Promise.reject(new Error("ENOSPC"));
  const { keeper, calls } = keeperWith({ takeFeedback: () => Promise.resolve(said as never) }, full);
  const stop = new AbortController();
  changeServing(serving, { change: { case: "setCanary", value: { percent: 10 } } } as never, { path: "/w/2" });
  const over = keeper.run(stop.signal);
  await waitFor(() => calls.includes("serve serve.bot.canary:2"));
  changeServing(serving, { change: { case: "endCanary", value: {} } } as never, undefined);
  await waitFor(() => calls.includes("release serve.bot.canary"));
  stop.abort();
  await over;
  expect(calls.at(-1)).toBe("leave serve.bot");
});
