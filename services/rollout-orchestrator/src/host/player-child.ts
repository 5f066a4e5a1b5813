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
  REACHED,
  serveChild,
  socketOf,
} from "@whetstone/modules/child";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import { createRegistry, readModule, type RegisteredActor } from "@whetstone/sdk";
import { connectorToSocket } from "@whetstone/tls";
import { playEpisode, type PlayerDeps } from "../play/episode-player.ts";
import { ExternalModels } from "../play/external-models.ts";
import { Gateway } from "../play/gateway.ts";
import { BUILT_IN } from "../agents/built-in.ts";
import { describeKind } from "../service/describe-kind.ts";
import { AskedEnvironments } from "./asked-environments.ts";
import type { PlayCall, PlayerSettings } from "./play-call.ts";

serveChild(async (settings: PlayerSettings): Promise<ChildMethods> => {
  const { code } = settings;
  const { actors, environments } = readModule(await loadModule(code, { folder: NOWHERE }));
  const keys: Record<string, string> = {};
  const ownKinds = new Set(environments.map(({ kind }) => kind));
  const gateway = openGateway(settings);
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
      play: (call: PlayCall, scope: CallScope) => {
        Object.assign(keys, call.keys);
        return play({ ...deps, environments: new AskedEnvironments(scope.ask, ownKinds) }, call, scope.signal);
      },
    },
    close: () => gateway[Symbol.asyncDispose](),
  };
});

/** In a sandbox by its socket; users' own clients by a port of the sandbox's loopback that leads there. */
function openGateway({ gatewayUrl, publicUrl, connections }: PlayerSettings): Gateway {
  if (!hasSocket("gateway")) return new Gateway(gatewayUrl, connections, { publicUrl });
  const { pathname } = new URL(gatewayUrl);
  const inside = `http://127.0.0.1:${REACHED.gateway}${pathname === "/" ? "" : pathname}`;
  return new Gateway(inside, connections, { connect: connectorToSocket(socketOf("gateway")), publicUrl });
}

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
