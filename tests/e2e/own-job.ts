// SPDX-License-Identifier: Apache-2.0
// The example's agent and environment. In a sandbox they look around first, and refuse to start where they see what is the pod's.
import { existsSync } from "node:fs";
import { connect } from "node:net";
import job from "../../examples/math/agent.ts";
import { wantedSandbox } from "./own-sandbox.ts";

export * from "../../examples/math/agent.ts";

const CONNECT_MS = 2_000;
/** Certificates and keys; the token of a service account. */
const FILES = ["/tls", "/nats", "/var/run/secrets"];
const SERVICES = [
  { host: "whetstone-nats", port: 4222 },
  { host: "whetstone-controller", port: 9083 },
  { host: process.env["KUBERNETES_SERVICE_HOST"] ?? "10.96.0.1", port: 443 },
  { host: "169.254.169.254", port: 80 },
];

if (process.env["WHETSTONE_SANDBOX"]) {
  const variables = Object.keys(process.env).filter((name) => /^WHETSTONE_(NATS|TLS|GATEWAY)/u.test(name));
  const reached = await Promise.all(SERVICES.map(async (one) => ((await isReached(one)) ? [one.host] : [])));
  const seen = [...FILES.filter((path) => existsSync(path)), ...variables, ...reached.flat()];
  if (seen.length > 0) throw new Error(`a job's own code sees ${seen.join(", ")}`);
}

function isReached({ host, port }: (typeof SERVICES)[number]): Promise<boolean> {
  const socket = connect({ host, port, timeout: CONNECT_MS });
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false)).once("timeout", () => resolve(false));
  }).finally(() => socket.destroy());
}

export default {
  ...job,
  document: async () => ({ ...(await job.document()), module: { sandbox: wantedSandbox() } }),
};
