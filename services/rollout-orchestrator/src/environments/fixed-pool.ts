// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";
import type { FairGate } from "../slots/fair-gate.ts";
import { fixedRunner } from "./runners.ts";
import type { Pool, Pools } from "./pools.ts";

const ANSWER_MS = 2_000;
const NOTHING: Disposable = { [Symbol.dispose]: () => undefined };

/** One env-runner at a known address, which refuses what is too much for it. */
export function fixedPool(
  address: string,
  {
    gate,
    environments,
  }: { readonly gate: FairGate; environments: Pick<RpcClient<typeof EnvironmentService>, "describe"> },
): Pools {
  const runners = { ...fixedRunner(address), ...NOTHING };
  const pool: Pool = {
    isOpen: true,
    setWeight: () => undefined,
    enter: () => Promise.resolve(NOTHING),
    forget: () => undefined,
    lease: () => runners,
    /** All but those of others. An episode of ours counts as one of ours, whatever it does now. */
    async slots() {
      try {
        const { slots, slotsUsed } = await environments.describe({}, { deadlineMs: ANSWER_MS });
        return slots - Math.max(0, slotsUsed - gate.active);
      } catch {
        return undefined;
      }
    },
    onChange: () => () => undefined,
  };
  return { of: () => pool };
}
