// SPDX-License-Identifier: Apache-2.0
// A controller that was replaced wakes up and goes on where it stood: nothing of it may have an effect.
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { serve, startGateway, TINY } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

let engine: FakeEngine;
let gateway: Gateway;
beforeEach(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway();
});
afterEach(async () => {
  await gateway.close();
  await engine.kill();
});

it("refuses every change by a controller of an older epoch, and by one without", async () => {
  const { fleet } = gateway;
  await serve(gateway, "e0", engine.url, TINY);
  await fleet.registerEngine({ id: "e1", url: "http://127.0.0.1:9", epoch: 7n });
  for (const epoch of [6n, 0n]) {
    const policy = { policy: "tiny", policyVersion: 9n, label: "tiny:9", modelPath: TINY };
    for (const call of [
      () => fleet.registerEngine({ id: "e2", url: "http://127.0.0.1:9", epoch }),
      () => fleet.fenceEngine({ id: "e0", epoch }),
      () => fleet.drainEngine({ id: "e1", epoch }),
      () => fleet.unfenceEngine({ id: "e1", policy, epoch }),
      () => fleet.removeEngine({ id: "e1", epoch }),
      () => fleet.forgetPolicy({ policy: "tiny", epoch }),
    ])
      await expect(call()).rejects.toMatchObject({
        code: "STALE_EPOCH",
        message: expect.stringContaining("epoch 7 leads") as string,
      });
  }
  const { engines } = await fleet.listEngines({});
  expect(engines.map(({ id, policy }) => [id, policy?.policyVersion])).toEqual([
    ["e0", engines[0]?.policy?.policyVersion],
    ["e1", undefined],
  ]);
  await fleet.removeEngine({ id: "e1", epoch: 8n });
});
