// SPDX-License-Identifier: Apache-2.0
export { countTurns } from "./count-turns.ts";
export type { GenerateRequest } from "./engine-generate.ts";
export type { EngineAnswer, EngineSampling, EngineScript, Fault, FaultPoint } from "./engine-script.ts";
export { freePort } from "./free-port.ts";
export {
  answerBySeed,
  type LeanAnswer,
  leanChat,
  leanGenerate,
  type LeanEngine,
  type LeanEngineOptions,
  type LeanRequest,
  startLeanEngine,
} from "./lean-engine.ts";
export { findNatsServer, type NatsServerOptions, startNats, type TestNats } from "./nats-server.ts";
export { objectStoreProgram, type ObjectStoreServer, startObjectStore } from "./object-store.ts";
export { type ScriptedEngine, type ScriptedEngineOptions, startScriptedEngine } from "./scripted-engine.ts";
export { waitFor, type WaitOptions } from "./wait-for.ts";
export { canHaveSandboxes } from "./can-have-sandboxes.ts";
export { canMountVolumes, type SmallVolume, smallVolume } from "./small-volume.ts";
export { startVictim } from "./start-victim.ts";
