// SPDX-License-Identifier: Apache-2.0
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { RegisteredActor, Registry } from "@whetstone/sdk";
import type { ModulePlayer } from "../host/module-player.ts";
import { describeKind } from "./describe-kind.ts";

/** Only DescribeAgents so far; everything else answers UNIMPLEMENTED. */
export function rolloutService(
  actors: Registry<RegisteredActor>,
  modules: Pick<ModulePlayer, "describe">,
): ServiceImplementation {
  const builtIn = actors.kinds.map(describeKind);
  return implement(RolloutService, {
    describeAgents: async ({ module }, { signal }) => ({
      kinds: module === undefined ? builtIn : [...(await modules.describe(module, signal))],
    }),
  });
}
