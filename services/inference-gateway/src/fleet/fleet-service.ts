// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { requireRules } from "@whetstone/contract/check";
import {
  EngineState as WireState,
  FleetService,
  ForgetPolicyRequestSchema,
  PutAdaptersRequestSchema,
  PutServingsRequestSchema,
  RegisterEngineRequestSchema,
  UnfenceEngineRequestSchema,
} from "@whetstone/proto/inference/v1/inference";
import type { EngineSchema, ServedPolicy } from "@whetstone/proto/inference/v1/inference";
import { implement } from "@whetstone/rpc";
import type { ServiceImplementation } from "@whetstone/rpc";
import type { EngineEntry, EngineState, ServedModel } from "./engine-entry.ts";
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
    registerEngine: (request) => {
      const { id, url, controlUrl, epoch } = request;
      fence.pass(epoch);
      requireRules(RegisterEngineRequestSchema, request);
      const steered = controlUrl && new URL(controlUrl).origin;
      return { engine: wireEngine(control.register(id, new URL(url).origin, steered)) };
    },
    removeEngine: async ({ id, drain, epoch }, { signal }) => {
      fence.pass(epoch);
      return { revoked: await control.remove(id, drain ? durationMs(drain) : 0, signal) };
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
    unfenceEngine: async (request) => {
      const { id, policy, epoch } = request;
      fence.pass(epoch);
      requireRules(UnfenceEngineRequestSchema, request);
      return {
        engine: wireEngine(await control.unfence(id, servedModel(policy as ServedPolicy), () => fence.pass(epoch))),
      };
    },
    putAdapters: async (request) => {
      const { id, baseLabel, adapters, epoch } = request;
      fence.pass(epoch);
      requireRules(PutAdaptersRequestSchema, request);
      const served = adapters.map((each) => ({ ...servedModel(each), isAdapter: true }));
      return { engine: wireEngine(await control.putAdapters(id, baseLabel, served, () => fence.pass(epoch))) };
    },
    forgetPolicy: (request) => {
      fence.pass(request.epoch);
      requireRules(ForgetPolicyRequestSchema, request);
      return { sessions: control.forget(request.policy) };
    },
    putServings: (request) => {
      fence.pass(request.epoch);
      requireRules(PutServingsRequestSchema, request);
      control.putServings(request.servings);
      return {};
    },
    takeFeedback: ({ stored, epoch }) => {
      fence.pass(epoch);
      return { feedback: control.takeFeedback(stored) };
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
    ...(policy ? { policy } : {}),
    inFlight: engine.leases.size,
    reason: engine.reason,
    maxModelLen: engine.maxModelLen,
    adapters: [...engine.adapters.values()].map((each) => ({
      policy: { ...each, policyVersion: each.version },
      inFlight: [...engine.leases].filter((lease) => lease.served.policy === each.policy).length,
    })),
  };
}

function servedModel({ policy, policyVersion: version, label, modelPath, tokenizerPath }: ServedPolicy): ServedModel {
  return { policy, version, label, modelPath, tokenizerPath };
}
