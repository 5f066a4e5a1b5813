// SPDX-License-Identifier: Apache-2.0
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";
import { ANSWER_MS, type EngineDeps, traitsOfEngines } from "./engine-traits.ts";
import type { Violation } from "./violation.ts";

export interface TransportDeps {
  readonly trainerClient: Pick<RpcClient<typeof TrainerService>, "status">;
  readonly engines: EngineDeps;
}

/**
 * Whether trainer and engines can bring weights where the job says. Who does not answer now may be there when the job runs:
 * then the trainer refuses it, and engines say so in its status.
 */
export async function checkTransport(spec: JobSpec, deps: TransportDeps): Promise<Violation[]> {
  if (spec.weights?.transport?.kind.case !== "objectStore" || !spec.loop?.steps) return [];
  const at = (reason: string): Violation[] => [{ path: "weights.transport.objectStore", reason, curable: true }];
  const trainer = await deps.trainerClient.status({}, { deadlineMs: ANSWER_MS }).catch(() => undefined);
  if (trainer?.objectStore === "") return at("the trainer has no object store: start it with --object-store");
  for (const [id, { objectStore: store }] of await traitsOfEngines(deps.engines)) {
    if (store === "") return at(`engine ${id} has no object store: start it with --object-store`);
    if (trainer && store !== trainer.objectStore)
      return at(`engine ${id} reads weights from ${store}, and the trainer writes them to ${trainer.objectStore}`);
  }
  return [];
}
