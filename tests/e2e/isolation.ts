// SPDX-License-Identifier: Apache-2.0
// What an environment's pod can reach, asked from inside it.
import { kubectl } from "./cluster.ts";
import { NAMESPACE, RELEASE } from "./release.ts";

/** Tries each "host/port" and prints "host/port open" or "host/port shut". */
const PROBE = `
const net = require("net");
const open = ([host, port]) => new Promise((done) => {
  const socket = net.connect({ host, port: Number(port), timeout: 2000 });
  const end = (state) => { socket.destroy(); done(state); };
  socket.once("connect", () => end("open")).once("error", () => end("shut")).once("timeout", () => end("shut"));
});
Promise.all(process.argv.slice(1).map(async (target) => console.log(target, await open(target.split("/")))));
`;

const TARGETS = [
  "kubernetes.default/443",
  `${RELEASE}-nats/4222`,
  `${RELEASE}-trainer/7400`,
  `${RELEASE}-engine-0.${RELEASE}-engine/8000`,
  `${RELEASE}-gateway/8080`,
  `${RELEASE}-gateway/9080`,
  `${RELEASE}-controller/9083`,
  `${RELEASE}-orchestrator/9082`,
];

/** Answers what was seen. Throws when an environment's pod reaches some of what it must not. */
export function checkIsolation(): string {
  refuseDeadTargets();
  const reached = openFrom("env-runner", TARGETS);
  if (reached.length === TARGETS.length) return "NOT CHECKED: this cluster's network does not enforce NetworkPolicy";
  if (reached.length > 0) throw new Error(`an environment's pod reaches ${reached.join(", ")}`);
  return `an environment's pod reaches none of ${TARGETS.length} addresses`;
}

/** A target that answers nobody would prove nothing: each of these answers the controller. */
function refuseDeadTargets(): void {
  const own = [`${RELEASE}-gateway/8080`]; // Agents' side: not the controller's.
  const expected = TARGETS.filter((target) => !own.includes(target));
  const reached = openFrom("controller", expected);
  const dead = expected.filter((target) => !reached.includes(target));
  if (dead.length > 0) throw new Error(`the controller does not reach ${dead.join(", ")}`);
}

function openFrom(component: string, targets: readonly string[]): string[] {
  const pod = [`deployment/${RELEASE}-${component}`, "-c", component];
  const lines = kubectl("-n", NAMESPACE, "exec", ...pod, "--", "node", "-e", PROBE, ...targets)
    .trim()
    .split("\n");
  return lines.filter((line) => line.endsWith(" open")).map((line) => line.slice(0, -" open".length));
}
