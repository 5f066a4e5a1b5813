// SPDX-License-Identifier: Apache-2.0
/** The program that plays a job's episodes: the user's agents, with gateway and environment at hand. Its parent is the orchestrator. */
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type CallScope, type ChildMethods, loadModule, NOWHERE, serveChild } from "@whetstone/modules/child";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import { createRegistry, readModule, type RegisteredActor } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { connectorTo, openTls } from "@whetstone/tls";
import { EnvironmentModule } from "../environments/environment-module.ts";
import { playTask, type PlayerDeps } from "../play/episode-player.ts";
import { ExternalModels } from "../play/external-models.ts";
import { Gateway } from "../play/gateway.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { BUILT_IN } from "../agents/built-in.ts";
import { describeKind } from "../service/describe-kind.ts";
import type { PlayCall, PlayerSettings } from "./play-call.ts";

serveChild(async (settings: PlayerSettings): Promise<ChildMethods> => {
  const { code, digest, gatewayUrl, relayUrl, connections } = settings;
  const tls = openTls(settings.tlsPath, { logger: silentLogger });
  const { actors, environments } = readModule(await loadModule(code, { folder: NOWHERE }));
  const keys: Record<string, string> = {};
  const connect = tls && connectorTo(tls.to("gateway"));
  const gateway = new Gateway(gatewayUrl, connections, { connect, relayUrl });
  const runners = new RunnerClients({ tls: tls?.to("env-runner") });
  const deps: PlayerDeps = {
    actors: createRegistry("agent", withBuiltIn(actors)),
    environments: runners,
    gateway,
    externals: new ExternalModels(keys),
    module: new EnvironmentModule({ digest, code, kinds: new Set(environments.map(({ kind }) => kind)) }),
    log: (message, fields) => {
      console.log(JSON.stringify({ message, ...fields }));
    },
  };
  return {
    methods: {
      describe: () => actors.map(describeKind),
      play: (call: PlayCall, scope: CallScope) => {
        Object.assign(keys, call.keys);
        return play(deps, call, scope.signal);
      },
    },
    close: async () => {
      await Promise.all([gateway[Symbol.asyncDispose](), runners[Symbol.asyncDispose]()]);
      tls?.[Symbol.dispose]();
    },
  };
});

async function play(deps: PlayerDeps, call: PlayCall, signal: AbortSignal): Promise<Uint8Array> {
  const { attempt, replay, waitingMs, runners } = call;
  const task = fromBinary(RolloutTaskSchema, call.task);
  const recorded = call.recorded && fromBinary(EpisodeSchema, call.recorded);
  return toBinary(EpisodeSchema, await playTask(deps, { task, attempt, replay, waitingMs, recorded, runners }, signal));
}

/** A job's own kinds go before built-in ones of the same name. */
function withBuiltIn(own: readonly RegisteredActor[]): RegisteredActor[] {
  const taken = new Set(own.map(({ kind }) => kind));
  return [...own, ...BUILT_IN.filter(({ kind }) => !taken.has(kind))];
}
