// SPDX-License-Identifier: Apache-2.0
/** Typed clients; they close with their scope: `await using jobs = jobClient("127.0.0.1:4001")`. */
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import type { RpcClient } from "@whetstone/rpc";

/** A controller that is there answers at once; one that starts again is back within seconds. */
const UNARY_DEADLINE_MS = 20_000;
/** Taking a job in loads its module and resets its environment once. */
export const SUBMIT_DEADLINE_MS = 120_000;

export type JobClient = RpcClient<typeof JobService>;
export type FleetClient = RpcClient<typeof FleetService>;

export function jobClient(address: string): JobClient {
  return createClient(JobService, address, { deadlineMs: UNARY_DEADLINE_MS, connectTimeoutMs: UNARY_DEADLINE_MS });
}

export function fleetClient(address: string): FleetClient {
  return createClient(FleetService, address, { deadlineMs: UNARY_DEADLINE_MS, connectTimeoutMs: UNARY_DEADLINE_MS });
}
