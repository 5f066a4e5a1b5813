// SPDX-License-Identifier: Apache-2.0
import type { FleetService } from "@whetstone/proto/inference/v1/inference";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";
import type { Violation } from "./violation.ts";

/** Whoever submits waits for these answers. */
const ANSWER_MS = 3_000;

export interface TransportDeps {
  readonly trainerClient: Pick<RpcClient<typeof TrainerService>, "status">;
  readonly fleetClient: Pick<RpcClient<typeof FleetService>, "listEngines">;
  /** The object store that an engine was started with, by the URL that steers it; "": none. */
  readonly engineStore: (url: string, signal: AbortSignal) => Promise<string>;
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
  for (const [id, store] of await engineStores(deps)) {
    if (store === "") return at(`engine ${id} has no object store: start it with --object-store`);
    if (trainer && store !== trainer.objectStore)
      return at(`engine ${id} reads weights from ${store}, and the trainer writes them to ${trainer.objectStore}`);
  }
  return [];
}

/** Of the engines that answer, by id. */
async function engineStores({ fleetClient, engineStore }: TransportDeps): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const { engines } = await fleetClient.listEngines({}, { deadlineMs: ANSWER_MS }).catch(() => ({ engines: [] }));
  const ask = async (id: string, url: string): Promise<void> => {
    const store = await engineStore(url, AbortSignal.timeout(ANSWER_MS)).catch(() => undefined);
    if (store !== undefined) found.set(id, store);
  };
  await Promise.all(engines.map(({ id, url, controlUrl }) => ask(id, controlUrl || url)));
  return found;
}
