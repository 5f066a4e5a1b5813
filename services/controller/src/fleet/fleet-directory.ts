// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import {
  type Engine,
  EngineState,
  type Fleet,
  FleetSchema,
  type FleetReplicaSchema,
  ReplicaState,
} from "@whetstone/proto/inference/v1/inference";
import {
  engineId,
  INFERENCE_FLEETS,
  type ReplicaState as StatusState,
  type ReplicaStatus,
  type StoredFleet,
} from "../operator/inference-fleet/schema.ts";
import type { EngineFleet } from "./engine-fleet.ts";
import type { Gateways } from "./gateways/every-gateway.ts";

/** Engines as people see them. */
export interface FleetDirectory {
  list(): Promise<Fleet[]>;
  /** @throws NOT_FOUND, or FAILED_PRECONDITION where their number is not for people to say */
  scale(name: string, replicas: number): Promise<Fleet>;
}

type Gateway = Pick<Gateways, "listEngines">;
/** Somebody waits at a prompt: a gateway that is away must not hold the answer. */
const GATEWAY_MS = 3_000;

/** On a cluster: InferenceFleet objects, with the calls that the gateway counts. Any replica of the controller answers. */
export function clusterFleets(kube: Kube, gateway: Gateway): FleetDirectory {
  return {
    async list() {
      const [fleets, engines] = await Promise.all([kube.list(INFERENCE_FLEETS), enginesOf(gateway)]);
      const inFlight = new Map(engines.map((engine) => [engine.id, engine.inFlight]));
      return fleets.map((fleet) => shown(fleet, inFlight)).sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    async scale(name, replicas) {
      if (!(await kube.get(INFERENCE_FLEETS, name))) {
        const known = (await kube.list(INFERENCE_FLEETS)).map(({ metadata }) => metadata.name).join(", ") || "none";
        throw new WhetstoneError("NOT_FOUND", `there is no fleet "${name}"; known: ${known}`);
      }
      return shown(await kube.patch(INFERENCE_FLEETS, name, { spec: { replicas } }), new Map());
    },
  };
}

async function enginesOf(gateway: Gateway): Promise<Engine[]> {
  return await gateway.listEngines({}, { deadlineMs: GATEWAY_MS }).then(
    ({ engines }) => engines,
    () => [],
  );
}

/** On one machine: the engines that the gateway was told of at its start. */
export function localFleet(gateway: Gateway, fleet: Pick<EngineFleet, "wantedOf">): FleetDirectory {
  return {
    async list() {
      const { engines } = await gateway.listEngines({}, { deadlineMs: GATEWAY_MS });
      return [
        create(FleetSchema, {
          name: "local",
          replicas: engines.map((engine) => ofGateway(engine, fleet.wantedOf(engine.id))),
        }),
      ];
    },
    scale: () => {
      const message = "engines of this machine are started by `whet up --engines N`; fleets scale on Kubernetes";
      return Promise.reject(new WhetstoneError("FAILED_PRECONDITION", message));
    },
  };
}

function ofGateway(engine: Engine, wanted: object | undefined): MessageInitShape<typeof FleetReplicaSchema> {
  const { id: name, url, inFlight, policy, reason } = engine;
  const idle = wanted === undefined;
  const waiting = idle ? ReplicaState.PAUSED : ReplicaState.UPDATING;
  const states: Partial<Record<EngineState, ReplicaState>> = {
    [EngineState.SERVING]: idle ? ReplicaState.PAUSED : ReplicaState.SERVING,
    [EngineState.QUARANTINED]: ReplicaState.STALE,
  };
  return {
    ...{ name, url, inFlight, state: states[engine.state] ?? waiting },
    ...(policy && { policy: policy.policy, policyVersion: policy.policyVersion }),
    reason: reason || (idle ? "no job runs" : ""),
  };
}

const STATES: Record<StatusState, ReplicaState> = {
  Serving: ReplicaState.SERVING,
  Paused: ReplicaState.PAUSED,
  Updating: ReplicaState.UPDATING,
  Stale: ReplicaState.STALE,
  Down: ReplicaState.DOWN,
};

function shown({ metadata, spec, status = {} }: StoredFleet, inFlight: ReadonlyMap<string, number>): Fleet {
  const { name } = metadata;
  const replica = (line: ReplicaStatus): MessageInitShape<typeof FleetReplicaSchema> => ({
    ...{ name: line.name, url: line.url ?? "", state: STATES[line.state], reason: line.reason ?? "" },
    ...(line.policy !== undefined && { policy: line.policy }),
    ...(line.policyVersion !== undefined && { policyVersion: BigInt(line.policyVersion) }),
    inFlight: inFlight.get(engineId(name, line.name)) ?? 0,
  });
  const { engines = [], conditions = [] } = status;
  return create(FleetSchema, {
    name,
    wanted: spec.replicas,
    replicas: engines.map(replica),
    conditions: conditions.map(({ type, status: value, reason, message }) => ({
      type,
      status: value,
      reason,
      message,
    })),
  });
}
