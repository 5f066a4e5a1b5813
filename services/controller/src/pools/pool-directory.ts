// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import { type Pool, PoolSchema } from "@whetstone/proto/pools/v1/pools";
import { ENVIRONMENT_POOLS, type StoredPool } from "../operator/environment-pool/schema.ts";
import type { FindHost } from "./environment-hosts.ts";

/** Pools as people see them. */
export interface PoolDirectory {
  /** By name. */
  list(): Promise<Pool[]>;
  /** Undefined: there is none of this name. */
  find(name: string): Promise<Pool | undefined>;
  /** @throws FAILED_PRECONDITION where its size is not for people to say */
  scale(name: string, replicas: number): Promise<Pool>;
}

/** On a cluster: EnvironmentPool objects. Any replica of the controller answers. */
export function clusterPools(kube: Kube): PoolDirectory {
  const find = async (name: string): Promise<StoredPool | undefined> => kube.get(ENVIRONMENT_POOLS, name);
  return {
    list: async () => (await kube.list(ENVIRONMENT_POOLS)).map(shown).sort((a, b) => (a.name < b.name ? -1 : 1)),
    find: async (name) => shownIfThere(await find(name)),
    async scale(name, replicas) {
      const pool = await find(name);
      if (pool?.spec.autoscaling.enabled) {
        const { min, max } = pool.spec.autoscaling;
        const message = `pool "${name}" scales by itself between ${min} and ${max} env-runners; change spec.autoscaling of the EnvironmentPool`;
        throw new WhetstoneError("FAILED_PRECONDITION", message);
      }
      await kube.patch(ENVIRONMENT_POOLS, name, { spec: { replicas } }, { subresource: "scale" });
      return shown((await find(name)) as StoredPool);
    },
  };
}

/** On one machine: one env-runner a pool, which is there for good. */
export function fixedPools(names: readonly string[], findHost: FindHost): PoolDirectory {
  const look = async (name: string): Promise<Pool> => {
    const base = { name, replicas: 1, fixed: true };
    const { client } = await findHost(name);
    try {
      await using host = client;
      const { slots = 0, slotsUsed = 0 } = (await host?.describe({}, { deadlineMs: 3_000 })) ?? {};
      return create(PoolSchema, { ...base, ready: 1, slots, busySlots: slotsUsed });
    } catch (error) {
      const { message } = WhetstoneError.from(error);
      return create(PoolSchema, { ...base, reason: "NotEnoughReady", message });
    }
  };
  return {
    list: () => Promise.all(names.toSorted().map(look)),
    find: async (name) => (names.includes(name) ? await look(name) : undefined),
    scale: () => {
      const message = "a pool on this machine has one env-runner, and it is fixed; pools scale on Kubernetes";
      return Promise.reject(new WhetstoneError("FAILED_PRECONDITION", message));
    },
  };
}

function shownIfThere(pool: StoredPool | undefined): Pool | undefined {
  return pool && shown(pool);
}

function shown({ metadata, spec, status = {} }: StoredPool): Pool {
  const { ready = 0, draining = 0, busySlots = 0, freeSlots = 0, conditions = [] } = status;
  const { enabled, min, max } = spec.autoscaling;
  const trouble = [...conditions]
    .reverse()
    .find(
      ({ type, status: value }) => (type === "Degraded" && value === "True") || (type === "Ready" && value === "False"),
    );
  return create(PoolSchema, {
    name: metadata.name,
    replicas: spec.replicas,
    ...{ ready, draining, busySlots },
    slots: ready * spec.slotsPerWorker || freeSlots,
    kinds: spec.kinds ?? [],
    ...(enabled && { autoscaling: { min, max } }),
    ...(trouble && { reason: trouble.reason, message: trouble.message }),
  });
}
