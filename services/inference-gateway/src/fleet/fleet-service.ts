// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { ConfigError } from "@whetstone/core";
import { EngineState as WireState, FleetService } from "@whetstone/proto/inference/v1/inference";
import type { EngineSchema, ServedPolicy } from "@whetstone/proto/inference/v1/inference";
import { implement } from "@whetstone/rpc";
import type { ServiceImplementation } from "@whetstone/rpc";
import type { EngineEntry, EngineState, ServedModel } from "./fleet.ts";
import { EpochFence } from "./epoch-fence.ts";
import type { FleetControl } from "./fleet-control.ts";

const WIRE_STATE = {
  serving: WireState.SERVING,
  fenced: WireState.FENCED,
  quarantined: WireState.QUARANTINED,
} as const satisfies Record<EngineState, WireState>;

/** FleetService over the gateway's fleet. Whoever changes something must be the newest controller that was heard. */
export function fleetService(control: FleetControl): ServiceImplementation {
  const fence = new EpochFence();
  return implement(FleetService, {
    registerEngine: ({ id, url, controlUrl, epoch }) => {
      fence.pass(epoch);
      const steered = controlUrl === "" ? "" : httpUrl("control_url", controlUrl);
      return { engine: wireEngine(control.register(nonEmpty("id", id), httpUrl("url", url), steered)) };
    },
    removeEngine: async ({ id, drain, epoch }, { signal }) => {
      fence.pass(epoch);
      return { revoked: await control.remove(id, millis(drain), signal) };
    },
    listEngines: () => ({
      engines: [...control.fleet.engines.values()].map(wireEngine),
      waitingCalls: Object.fromEntries(control.fleet.waiting()),
    }),
    fenceEngine: ({ id, epoch }) => {
      fence.pass(epoch);
      return { engine: wireEngine(control.fence(id)) };
    },
    drainEngine: async ({ id, epoch }, { signal }) => {
      fence.pass(epoch);
      return { engine: wireEngine(await control.drain(id, signal)) };
    },
    unfenceEngine: async ({ id, policy, epoch }) => {
      fence.pass(epoch);
      return { engine: wireEngine(await control.unfence(id, servedModel(policy), () => fence.pass(epoch))) };
    },
    forgetPolicy: ({ policy, epoch }) => {
      fence.pass(epoch);
      return { sessions: control.forget(nonEmpty("policy", policy)) };
    },
  });
}

function wireEngine(engine: EngineEntry): MessageInitShape<typeof EngineSchema> {
  const { served } = engine;
  const policy = served && { ...served, policyVersion: served.version };
  return {
    id: engine.id,
    url: engine.url,
    controlUrl: engine.controlUrl,
    state: WIRE_STATE[engine.state],
    ...(policy === null ? {} : { policy }),
    inFlight: engine.leases.size,
    reason: engine.reason,
    maxModelLen: engine.maxModelLen,
  };
}

function servedModel(wire: ServedPolicy | undefined): ServedModel {
  const policy = nonEmpty("policy.policy", wire?.policy ?? "");
  const version = wire?.policyVersion ?? 0n;
  const label = nonEmpty("policy.label", wire?.label ?? "");
  if (label !== `${policy}:${version}`) {
    throw new ConfigError([{ path: "policy.label", reason: `"${label}" is not "${policy}:${version}"` }]);
  }
  return { policy, version, label, modelPath: nonEmpty("policy.model_path", wire?.modelPath ?? "") };
}

function nonEmpty(path: string, value: string): string {
  if (value === "") throw new ConfigError([{ path, reason: "must not be empty" }]);
  return value;
}

function millis(duration: Duration | undefined): number {
  return duration === undefined ? 0 : durationMs(duration);
}

function httpUrl(path: string, value: string): string {
  const url = URL.parse(value);
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    throw new ConfigError([{ path, reason: `"${value}" is not an http:// or https:// URL` }]);
  return url.origin;
}
