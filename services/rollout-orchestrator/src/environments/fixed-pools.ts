// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";
import type { FairGate } from "../slots/fair-gate.ts";
import { fixedRunner } from "./runners.ts";
import type { Pool, Pools } from "./pools.ts";

const ANSWER_MS = 2_000;
const NOTHING: Disposable = { [Symbol.dispose]: () => undefined };

export interface FixedPoolsDeps {
  readonly gate: Pick<FairGate, "active">;
  readonly connect: (address: string) => Pick<RpcClient<typeof EnvironmentService>, "describe">;
}

/** Pools of one env-runner each, at known addresses, which refuses what is too much for it. */
export function fixedPools(addresses: ReadonlyMap<string, string>, deps: FixedPoolsDeps): Pools {
  const pools = new Map([...addresses].map(([name, address]) => [name, fixedPool(address, deps)]));
  return { of: (name) => pools.get(name) ?? NOWHERE };
}

function fixedPool(address: string, { gate, connect }: FixedPoolsDeps): Pool {
  const runners = { ...fixedRunner(address), ...NOTHING };
  const environments = connect(address);
  return {
    ...NOWHERE,
    isOpen: true,
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
  };
}

/** A pool that is not there any more: its jobs wait until these services are started with it again. */
const NOWHERE: Pool = {
  isOpen: false,
  setWeight: () => undefined,
  enter: () => Promise.resolve(NOTHING),
  forget: () => undefined,
  lease: () => undefined,
  slots: () => Promise.resolve(undefined),
  onChange: () => () => undefined,
};
