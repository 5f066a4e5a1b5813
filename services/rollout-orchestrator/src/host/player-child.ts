// SPDX-License-Identifier: Apache-2.0
/** The program that plays a job's episodes: the user's agents, with gateway and environment at hand. Its parent is the orchestrator. */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type CallScope,
  type ChildMethods,
  connectThroughProxy,
  hasSocket,
  loadModule,
  NOWHERE,
  serveChild,
} from "@whetstone/modules/child";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import { createRegistry, readModule, type RegisteredActor } from "@whetstone/sdk";
import { playEpisode, type PlayerDeps } from "../play/episode-player.ts";
import { ExternalModels } from "../play/external-models.ts";
import { BUILT_IN } from "../agents/built-in.ts";
import { describeKind } from "../service/describe-kind.ts";
import { AskedEnvironments } from "./asked-environments.ts";
import { ChildGateways } from "./child-gateways.ts";
import type { PlayCall, PlayerSettings } from "./play-call.ts";

serveChild(async (settings: PlayerSettings): Promise<ChildMethods> => {
  const { code, connections } = settings;
  const { actors, environments } = readModule(await loadModule(code, { folder: NOWHERE }));
  const keys: Record<string, string> = {};
  const ownKinds = new Set(environments.map(({ kind }) => kind));
  const gateway = new ChildGateways(connections);
  const deps: PlayerDeps = {
    actors: createRegistry("agent", withBuiltIn(actors)),
    gateway,
    externals: new ExternalModels(keys, hasSocket("proxy") ? connectThroughProxy : undefined),
    log: (message, fields) => {
      console.log(JSON.stringify({ message, ...fields }));
    },
  };
  return {
    methods: {
      describe: () => actors.map(describeKind),
      play: async (call: PlayCall, scope: CallScope) => {
        Object.assign(keys, call.keys);
        await gateway.update(call.gateways);
        return play({ ...deps, environments: new AskedEnvironments(scope.ask, ownKinds) }, call, scope.signal);
      },
    },
    close: () => gateway[Symbol.asyncDispose](),
  };
});

async function play(deps: Parameters<typeof playEpisode>[0], call: PlayCall, signal: AbortSignal): Promise<Uint8Array> {
  const { attempt, replay, waitingMs } = call;
  const task = fromBinary(RolloutTaskSchema, call.task);
  const recorded = call.recorded && fromBinary(EpisodeSchema, call.recorded);
  return toBinary(EpisodeSchema, await playEpisode(deps, { task, attempt, replay, waitingMs, recorded }, signal));
}

/** A job's own kinds go before built-in ones of the same name. */
function withBuiltIn(own: readonly RegisteredActor[]): RegisteredActor[] {
  const taken = new Set(own.map(({ kind }) => kind));
  return [...own, ...BUILT_IN.filter(({ kind }) => !taken.has(kind))];
}
