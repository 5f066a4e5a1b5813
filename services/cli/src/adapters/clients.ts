// SPDX-License-Identifier: Apache-2.0
/** Typed clients that close with their scope: `await using jobs = jobClient("127.0.0.1:4001")`. */
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import type { Client } from "@whetstone/rpc";
import { createClient } from "@whetstone/rpc";

export interface ScopedClient<C> extends AsyncDisposable {
  readonly client: C;
}

export type JobClient = Client<typeof JobService>;

export function jobClient(address: string): ScopedClient<JobClient> {
  return scoped(createClient(JobService, address));
}

export function fleetClient(address: string): ScopedClient<Client<typeof FleetService>> {
  return scoped(createClient(FleetService, address));
}

function scoped<C extends { close(): void }>(client: C): ScopedClient<C> {
  return { client, [Symbol.asyncDispose]: async () => client.close() };
}
