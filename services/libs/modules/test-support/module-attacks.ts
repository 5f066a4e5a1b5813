// SPDX-License-Identifier: Apache-2.0
// What a user's module might try. Each is the body of an async function that answers true when it got what it wanted.
import type { Guard } from "@whetstone/sandbox";

export interface ModuleAttack {
  readonly name: string;
  /** Taken away together, they let it through. */
  readonly guards: readonly Guard[];
  readonly script: string;
}

/** What there is to be had: `T` in the scripts. */
export interface Targets {
  readonly key: string;
  readonly certificate: string;
  readonly writable: string;
  readonly socket: string;
  readonly abstract: string;
  readonly address: string;
  readonly port: number;
  readonly victim: number;
  readonly hostname: string;
}

/** Node's own modules, as any module has them. */
export const PRELUDE = `
const [fs, net, os, cp] = ["fs", "net", "os", "child_process"].map((name) => process.getBuiltinModule(name));
const reaches = (target) => new Promise((resolve) => {
  const socket = net.connect(target, () => { socket.destroy(); resolve(true); });
  socket.on("error", () => resolve(false));
});
const statuses = (command, ...args) => cp.spawnSync(command, args).status;
const commandLine = (pid) => { try { return fs.readFileSync("/proc/" + pid + "/cmdline", "latin1"); } catch { return ""; } };
const commandLines = () => fs.readdirSync("/proc").map(commandLine);
`;

const files: ModuleAttack[] = [
  {
    name: "reads the service's key",
    guards: ["root folder"],
    script: `return fs.readFileSync(T.key, "utf8").includes("secret")`,
  },
  {
    name: "reads the service's certificate through a link",
    guards: ["root folder"],
    script: `fs.symlinkSync(T.certificate, "link"); return fs.readFileSync("link", "utf8").includes("secret")`,
  },
  {
    name: "reads /etc/passwd",
    guards: ["root folder"],
    script: `return fs.readFileSync("/etc/passwd", "utf8").includes("root")`,
  },
  {
    name: "writes a file of the service",
    guards: ["root folder"],
    script: `fs.writeFileSync(T.writable, "x"); return true`,
  },
  {
    name: "writes beside its folders",
    guards: ["read-only"],
    script: `fs.writeFileSync("/planted", "x"); return true`,
  },
  { name: "talks to a service's socket file", guards: ["root folder"], script: `return reaches({ path: T.socket })` },
];

const network: ModuleAttack[] = [
  {
    name: "connects to NATS",
    guards: ["network namespace"],
    script: `return reaches({ host: "127.0.0.1", port: T.port })`,
  },
  {
    name: "connects to an address of the cluster's network, as the API server and the metadata have",
    guards: ["network namespace"],
    script: `return reaches({ host: T.address, port: T.port })`,
  },
  {
    name: "connects to an abstract socket",
    guards: ["network namespace"],
    script: `return reaches({ path: "\\0" + T.abstract })`,
  },
  {
    name: "looks for network interfaces",
    guards: ["network namespace"],
    script: `return fs.readFileSync("/proc/net/dev", "latin1").split("\\n").length > 4`,
  },
];

const processes: ModuleAttack[] = [
  {
    name: "kills a process of the service",
    guards: ["process namespace"],
    script: `return process.kill(T.victim, "SIGKILL")`,
  },
  {
    name: "looks at a process of the service",
    guards: ["process namespace"],
    script: `return fs.readFileSync("/proc/" + T.victim + "/status", "latin1").includes("Name:\tsleep")`,
  },
  {
    name: "lists the service's processes",
    guards: ["process namespace"],
    script: `return commandLines().some((line) => line.includes("whetstone-" + "victim"))`,
  },
  {
    name: "reads the service's own environment",
    guards: ["environment"],
    script: `return JSON.stringify(process.env).includes("secret")`,
  },
  { name: "learns the host's name", guards: ["host name"], script: `return os.hostname() === T.hostname` },
  {
    name: "has capabilities",
    guards: ["capabilities"],
    script: `return !/CapEff:\\s+0+\\n/.test(fs.readFileSync("/proc/self/status", "utf8"))`,
  },
  { name: "makes a user namespace", guards: ["seccomp"], script: `return statuses("unshare", "--user", "true") === 0` },
];

const bombs: ModuleAttack[] = [
  {
    name: "starts more processes than it may",
    guards: ["processes"],
    script: `return statuses("sh", "-c", "for i in $(seq 320); do sleep 5 & done") === 0`,
  },
  {
    name: "fills its files",
    guards: ["disk"],
    script: `const part = Buffer.alloc(1 << 20); for (let i = 0; i < 260; i += 1) fs.appendFileSync("/tmp/big", part); return true`,
  },
];

export const MODULE_ATTACKS: readonly ModuleAttack[] = [...files, ...network, ...processes, ...bombs];
