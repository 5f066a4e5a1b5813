// SPDX-License-Identifier: Apache-2.0
import type { FleetService } from "@whetstone/proto/inference/v1/inference";
import type { RpcClient } from "@whetstone/rpc";

/** Whoever submits waits for these answers. */
export const ANSWER_MS = 3_000;

/** What not every engine can. */
export interface EngineTraits {
  /** Where weights are read from; "": nowhere, as with engines that know of none. */
  readonly objectStore: string;
  /** Parameters of truncated sampling under which the tokens that each one was drawn from are named; undefined: not said. */
  readonly namesSupport: readonly string[] | undefined;
}

export interface EngineDeps {
  readonly fleetClient: Pick<RpcClient<typeof FleetService>, "listEngines">;
  /** Of the engine with the URL that steers it. */
  readonly engineTraits: (url: string, signal: AbortSignal) => Promise<EngineTraits>;
}

/** Of the engines that answer now, by id: others may be there when the job runs. */
export async function traitsOfEngines({ fleetClient, engineTraits }: EngineDeps): Promise<Map<string, EngineTraits>> {
  const found = new Map<string, EngineTraits>();
  const { engines } = await fleetClient.listEngines({}, { deadlineMs: ANSWER_MS }).catch(() => ({ engines: [] }));
  const ask = async (id: string, url: string): Promise<void> => {
    const traits = await engineTraits(url, AbortSignal.timeout(ANSWER_MS)).catch(() => undefined);
    if (traits) found.set(id, traits);
  };
  await Promise.all(engines.map(({ id, url, controlUrl }) => ask(id, controlUrl || url)));
  return found;
}
