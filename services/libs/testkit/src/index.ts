// SPDX-License-Identifier: Apache-2.0
export { buildEpisode, buildTask, type Place } from "./builders.ts";
export { countTurns } from "./count-turns.ts";
export type { GenerateRequest } from "./engine-generate.ts";
export {
  echoScript,
  type EngineAnswer,
  type EngineSampling,
  type EngineScript,
  type Fault,
  type FaultPoint,
} from "./engine-script.ts";
export { freePort } from "./free-port.ts";
export {
  answerBySeed,
  type LeanAnswer,
  leanChat,
  type LeanEngine,
  type LeanEngineOptions,
  leanGenerate,
  type LeanRequest,
  startLeanEngine,
} from "./lean-engine.ts";
export { findNatsServer, type NatsServerOptions, startNats, type TestNats } from "./nats-server.ts";
export { type ScriptedEngine, type ScriptedEngineOptions, startScriptedEngine } from "./scripted-engine.ts";
export { waitFor, type WaitOptions } from "./wait-for.ts";
export { canMountVolumes, type SmallVolume, smallVolume } from "./small-volume.ts";
