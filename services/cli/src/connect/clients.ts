// SPDX-License-Identifier: Apache-2.0
/** Typed clients; they close with their scope: `await using jobs = jobClient("127.0.0.1:4001")`. */
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import type { RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { openTls, type Role } from "@whetstone/tls";
import type { DescService } from "@bufbuild/protobuf";

/** A controller that is there answers at once; one that starts again is back within seconds. */
const UNARY_DEADLINE_MS = 20_000;
/** Taking a job in loads its module and resets its environment once. */
export const SUBMIT_DEADLINE_MS = 120_000;

export type JobClient = RpcClient<typeof JobService>;
export type FleetClient = RpcClient<typeof FleetService>;

export function jobClient(address: string, environment: NodeJS.ProcessEnv = {}): JobClient {
  return clientOf(JobService, { role: "controller", address }, environment);
}

export function fleetClient(address: string): FleetClient {
  return clientOf(FleetService, { role: "gateway", address });
}

/** With the certificates in WHETSTONE_TLS_PATH, where it is set: ca.crt, tls.crt, tls.key. */
export function clientOf<S extends DescService>(
  service: S,
  { role, address }: { readonly role: Role; readonly address: string },
  environment: NodeJS.ProcessEnv = {},
): RpcClient<S> {
  const identity = openTls(environment["WHETSTONE_TLS_PATH"], { logger: silentLogger });
  const limits = { deadlineMs: UNARY_DEADLINE_MS, connectTimeoutMs: UNARY_DEADLINE_MS };
  const client = createClient(service, address, { ...limits, tls: identity?.to(role) });
  const close = async (): Promise<void> => {
    await client[Symbol.asyncDispose]();
    identity?.[Symbol.dispose]();
  };
  return { ...client, [Symbol.asyncDispose]: close };
}
