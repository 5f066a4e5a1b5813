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

/** "host/port" of what an environment must not reach, with who must, so that a dead address is no proof. */
interface Target {
  readonly address: string;
  readonly reachedBy: string | undefined;
}

/** Answers what was seen. Throws when an environment's pod reaches some of what it must not. */
export function checkIsolation(): string {
  const targets = targetsOf();
  refuseDeadTargets(targets);
  const forbidden = targets.filter(({ reachedBy }) => reachedBy !== "env-runner").map(({ address }) => address);
  const reached = openFrom(podWith("whetstone.dev/pool"), forbidden);
  if (reached.length === forbidden.length) return "NOT CHECKED: this cluster's network does not enforce NetworkPolicy";
  if (reached.length > 0) throw new Error(`an environment's pod reaches ${reached.join(", ")}`);
  return `an environment's pod reaches none of ${forbidden.length} addresses`;
}

/** Answers what was seen. Throws when a pod with the label, which must have Node, reaches anything of the release. */
export function refuseReached(label: string): string {
  const targets = [...targetsOf().map(({ address }) => address), "169.254.169.254/80"];
  const reached = openFrom(podWith(label), targets);
  if (reached.length >= targets.length - 1)
    return "reach NOT CHECKED: this cluster's network does not enforce NetworkPolicy";
  if (reached.length > 0) throw new Error(`a pod with ${label} reaches ${reached.join(", ")}`);
  return `reaches none of ${targets.length} addresses`;
}

function targetsOf(): Target[] {
  const engine = kubectl(
    "-n",
    NAMESPACE,
    "get",
    "pods",
    "-l",
    "whetstone.dev/fleet",
    "-o",
    "jsonpath={.items[0].status.podIP}",
  );
  const services: readonly (readonly [service: string, port: number, reachedBy: string])[] = [
    ["nats", 4222, "controller"],
    ["trainer", 7400, "controller"],
    ["gateway", 8080, "orchestrator"],
    ["agents", 8081, "orchestrator"],
    ["gateway", 9080, "controller"],
    ["orchestrator", 9082, "controller"],
    // For artifacts; TLS lets it call two methods there.
    ["controller", 9083, "env-runner"],
  ];
  return [
    { address: "kubernetes.default/443", reachedBy: "controller" },
    ...services.map(([service, port, reachedBy]) => ({
      address: `${RELEASE}-${service}/${port}`,
      reachedBy,
    })),
    { address: `${engine}/8000`, reachedBy: "gateway" },
    { address: `${engine}/8001`, reachedBy: "controller" },
    // Nobody but Prometheus, where it is allowed: the node reaches it, or the pod would not be ready.
    { address: `${engine}/8002`, reachedBy: undefined },
  ];
}

function refuseDeadTargets(targets: readonly Target[]): void {
  for (const caller of ["controller", "orchestrator", "gateway"]) {
    const expected = targets.filter(({ reachedBy }) => reachedBy === caller).map(({ address }) => address);
    const reached = openFrom(podWith(`app.kubernetes.io/component=${caller}`), expected);
    const dead = expected.filter((target) => !reached.includes(target));
    if (dead.length > 0) throw new Error(`the ${caller} does not reach ${dead.join(", ")}`);
  }
}

function podWith(label: string): string {
  const pods = kubectl(
    "-n",
    NAMESPACE,
    "get",
    "pods",
    "-l",
    label,
    "--field-selector=status.phase=Running",
    "-o",
    "name",
  );
  const [pod = ""] = pods.trim().split("\n");
  if (pod === "") throw new Error(`no pod with ${label} runs in ${NAMESPACE}`);
  return pod;
}

function openFrom(pod: string, targets: readonly string[]): string[] {
  const lines = kubectl("-n", NAMESPACE, "exec", pod, "--", "node", "-e", PROBE, ...targets)
    .trim()
    .split("\n");
  return lines.filter((line) => line.endsWith(" open")).map((line) => line.slice(0, -" open".length));
}
