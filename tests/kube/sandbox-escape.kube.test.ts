// SPDX-License-Identifier: Apache-2.0
// What a model might try in a pod: each is held, and the ones that need a guard of ours get through without it.
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { PODS, SERVICES } from "@whetstone/kube";
import type { KubernetesBackend, Sandbox } from "@whetstone/sandbox";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SANDBOX_LABELS } from "../../services/controller/src/operator/sandbox-pool/pods.ts";
import { COMMAND_LINES } from "../../services/libs/sandbox/test-support/attacks.ts";
import { DAEMON_ATTACKS, type DaemonAttack } from "../../services/libs/sandbox/test-support/daemon-attacks.ts";
import { openSandboxPools, type TestSandboxPools } from "../support/sandbox-pools.ts";

const stack = new AsyncDisposableStack();
let pools: TestSandboxPools;
let backend: KubernetesBackend;
let sandbox: Sandbox;
/** What there is to be had, by name. */
const targets = { api: "", host: "", pod: "", port: 0 };

const PRELUDE = `${COMMAND_LINES}
import ctypes, json, os, signal, socket, ssl, subprocess, sys, time
T = json.loads(sys.argv[1])
def escaped(yes=True):
    if yes: print("ESCAPED", flush=True)
def reaches(host, port):
    try: socket.create_connection((host, port), 3).close(); return True
    except OSError: return False
`;

const network: readonly DaemonAttack[] = [
  { name: "connects to the API server", script: `escaped(reaches(T["api"], 443) or reaches(T["api"], 6443))` },
  { name: "connects to a server of the node's network", script: `escaped(reaches(T["host"], T["port"]))` },
  { name: "connects to the cloud's metadata", script: `escaped(reaches("169.254.169.254", 80))` },
  { name: "connects to another pod's daemon", script: `escaped(reaches(T["pod"], 7443))` },
  {
    name: "looks up a name of the cluster",
    script: `
try: socket.getaddrinfo("kubernetes.default.svc.cluster.local", 443); escaped()
except OSError: pass`,
  },
  {
    name: "asks the cluster's name server itself",
    script: `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
s.sendto(bytes.fromhex("aaaa01000001000000000000036b7562000001") + b"\\0\\1", ("10.96.0.10", 53))
try: s.recv(512); escaped()
except OSError: pass`,
  },
];

const secrets: readonly DaemonAttack[] = [
  { name: "reads a service account's token", script: `escaped(os.path.exists("/var/run/secrets"))` },
  { name: "reads the daemon's identity", script: `escaped(len(os.listdir("/whetstone/identity")) > 0)` },
  {
    name: "talks to the daemon from inside",
    script: `
s = socket.create_connection(("127.0.0.1", 7443), 3)
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
context.wrap_socket(s).do_handshake(); escaped()`,
  },
  {
    name: "sees processes of others",
    script: `escaped(any(b"kube" + b"let" in line for line in command_lines()))`,
  },
];

async function outcome(attack: DaemonAttack, where: Sandbox): Promise<string> {
  const command = ["python3", "-c", PRELUDE + attack.script, JSON.stringify(targets)];
  const { stdout } = await where.exec(command, { stdin: "", deadlineMs: 20_000 }).result;
  return stdout + ((await where.exec(["echo", "well"]).result).stdout === "well\n" ? "" : "ESCAPED");
}

beforeAll(async () => {
  pools = stack.use(await openSandboxPools("escape"));
  await pools.pool("python", { warm: 2 });
  backend = stack.use(await pools.backend("python"));
  sandbox = stack.use(await backend.open());
  const { kube } = pools.cluster;
  const others = await kube.list(PODS, { labels: `!${SANDBOX_LABELS.claim}` });
  targets.pod = others.map(({ status }) => status?.podIP).find((ip) => ip !== undefined) ?? "";
  targets.api = (await kube.get(SERVICES, "kubernetes", { namespace: "default" }))?.spec?.clusterIP ?? "";
  const server = createServer((socket) => socket.destroy());
  stack.defer(() => {
    server.close();
  });
  await new Promise<void>((resolve) => void server.listen(0, "0.0.0.0", resolve));
  targets.port = (server.address() as AddressInfo).port;
  // The address that pods know this process by.
  const socket = connect(7443, targets.pod);
  await once(socket, "connect");
  targets.host = socket.localAddress ?? "";
  socket.destroy();
});

afterAll(async () => {
  await stack.disposeAsync();
});

describe.each([...network, ...secrets, ...DAEMON_ATTACKS])("a command in a pod that $name", (attack) => {
  it("is held", async () => {
    expect(await outcome(attack, sandbox)).not.toContain("ESCAPED");
  });
});

describe("what holds a command", () => {
  it("is the pool's network policy, where it connects to something", async () => {
    await pools.pool("open", { egress: [{}] });
    await using open = await pools.backend("open");
    await using free = await open.open();
    const reached = network.filter(({ name }) => !name.includes("metadata"));
    for (const attack of reached) expect(await outcome(attack, free), attack.name).toContain("ESCAPED");
  });
});
