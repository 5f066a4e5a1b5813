// SPDX-License-Identifier: Apache-2.0
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { RegisteredActor, Registry } from "@whetstone/sdk";
import type { ModulePlayer } from "../host/module-player.ts";
import { describeKind } from "./describe-kind.ts";
import { type Play, replayEpisode } from "../replay/replay.ts";

export interface RolloutServiceDeps {
  readonly actors: Registry<RegisteredActor>;
  readonly modules: Pick<ModulePlayer, "describe">;
  readonly play: Play;
}

export function rolloutService({ actors, modules, play }: RolloutServiceDeps): ServiceImplementation {
  const builtIn = actors.kinds.map(describeKind);
  return implement(RolloutService, {
    describeAgents: async ({ module }, { signal }) => ({
      kinds: module === undefined ? builtIn : [...(await modules.describe(module, signal))],
    }),
    replay: (request, { signal }) => replayEpisode(play, request, signal),
  });
}
