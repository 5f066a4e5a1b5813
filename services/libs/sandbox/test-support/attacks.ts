// SPDX-License-Identifier: Apache-2.0
// What a model might write.
import type { Attack } from "./attack.ts";
import { kernel } from "./kernel-attacks.ts";

/** Names that the programs know: what there is to be had on the host. */
export interface Targets {
  readonly secret: string;
  readonly writable: string;
  readonly folder: string;
  readonly prepared: string;
  /** The workspace of another sandbox of level C. */
  readonly neighbour: string;
  readonly socket: string;
  readonly abstract: string;
  readonly port: number;
  readonly victim: number;
  readonly shmKey: number;
  readonly hostname: string;
}

/** Of all processes that are seen; some end while they are looked at. */
export const COMMAND_LINES = `
def command_lines():
    for pid in os.listdir("/proc"):
        try: yield open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError: pass
`;

export const PRELUDE = `${COMMAND_LINES}
import ctypes, json, os, socket, struct, subprocess, sys, tempfile, time
T = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def escaped(yes=True):
    if yes: print("ESCAPED", flush=True)
def syscall(*args):
    result = libc.syscall(*args)
    if result == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
`;

const files: Attack[] = [
  {
    name: "reads a file of the host",
    guards: ["root folder"],
    script: `escaped("secret" in open(T["secret"]).read())`,
  },
  {
    name: "writes a file of the host",
    guards: ["root folder"],
    script: `open(T["writable"], "w").write("x"); escaped()`,
  },
  { name: "reads /etc/passwd", guards: ["root folder"], script: `escaped("root" in open("/etc/passwd").read())` },
  { name: "lists the service's folder", guards: ["root folder"], script: `escaped(len(os.listdir(T["folder"])) > 0)` },
  {
    name: "reads another job's prepared state",
    guards: ["root folder"],
    script: `escaped("secret" in open(T["prepared"]).read())`,
  },
  {
    name: "follows its own link to a key",
    guards: ["root folder"],
    script: `os.symlink(T["secret"], "key"); escaped("secret" in open("key").read())`,
  },
  {
    name: "goes up from its workspace",
    guards: ["root folder"],
    script: `escaped("secret" in open("../" * 12 + T["secret"]).read())`,
  },
  {
    name: "goes through /proc/self/root",
    guards: ["root folder"],
    script: `escaped("secret" in open("/proc/self/root" + T["secret"]).read())`,
  },
  {
    name: "talks to a service's socket file",
    guards: ["root folder"],
    script: `s = socket.socket(socket.AF_UNIX); s.connect(T["socket"]); escaped()`,
  },
  { name: "writes beside its folders", guards: ["read-only"], script: `open("/planted", "w").write("x"); escaped()` },
  { name: "plants a device folder", guards: ["read-only"], script: `os.mkdir("/dev/planted"); escaped()` },
  { name: "replaces /etc", guards: ["read-only"], script: `os.makedirs("/etc/planted"); escaped()` },
];

const network: Attack[] = [
  {
    name: "connects to a service of the host",
    network: "loopback",
    guards: ["network namespace"],
    script: `socket.create_connection(("127.0.0.1", T["port"]), 5); escaped()`,
  },
  {
    name: "connects to an abstract socket of the host",
    guards: ["network namespace"],
    script: `s = socket.socket(socket.AF_UNIX); s.connect("\\0" + T["abstract"]); escaped()`,
  },
  {
    name: "looks for network interfaces",
    guards: ["network namespace"],
    script: `escaped(len(open("/proc/net/dev").readlines()) > 3)`,
  },
  {
    name: "looks at the host's connections",
    guards: ["network namespace"],
    script: `escaped(f":{T['port']:04X} " in open("/proc/net/tcp").read())`,
  },
  ...[
    ["AF_INET", 2, 1],
    ["AF_INET over UDP", 2, 2],
    ["AF_INET6", 10, 1],
    ["AF_NETLINK", 16, 3],
  ].map(([name, family, type]): Attack => ({
    name: `opens a socket of ${name}`,
    guards: ["seccomp"],
    script: `socket.socket(${family}, ${type}); escaped()`,
  })),
  {
    name: "opens a netlink socket though it has a network",
    network: "loopback",
    guards: ["seccomp"],
    script: `socket.socket(16, 3, 0); escaped()`,
  },
];

const processes: Attack[] = [
  { name: "kills a process of the host", guards: ["process namespace"], script: `os.kill(T["victim"], 9); escaped()` },
  { name: "stops a process of the host", guards: ["process namespace"], script: `os.kill(T["victim"], 19); escaped()` },
  {
    name: "slows a process of the host down",
    guards: ["process namespace"],
    script: `os.setpriority(os.PRIO_PROCESS, T["victim"], 19); escaped()`,
  },
  {
    name: "lists the host's processes",
    guards: ["process namespace"],
    script: `escaped(any(b"whetstone-" + b"victim" in line for line in command_lines()))`,
  },
  { name: "signals those that keep it", guards: ["session"], script: `escaped(os.getpgid(0) == 0)` },
  {
    name: "attaches to shared memory of the host",
    guards: ["ipc namespace"],
    script: `
id = libc.shmget(T["shmKey"], 0, 0)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(id, None, 0o10000)
escaped(id >= 0 and ctypes.string_at(address, 6) == b"secret")`,
  },
  { name: "learns the host's name", guards: ["host name"], script: `escaped(os.uname().nodename == T["hostname"])` },
  {
    name: "reads the service's environment",
    guards: ["environment"],
    script: `escaped("WHETSTONE_TEST_SECRET" in os.environ)`,
  },
  {
    name: "has capabilities",
    guards: ["capabilities"],
    script: `escaped(any(l.startswith("CapEff") and int(l.split()[1], 16) for l in open("/proc/self/status")))`,
  },
];

/** Sizes are bounded, so that they do no harm where the guard is away. */
const bombs: Attack[] = [
  { name: "takes more memory than it may", guards: ["memory"], script: `x = bytearray(150_000_000); escaped()` },
  {
    name: "starts more processes than it may",
    guards: ["processes"],
    script: `
for i in range(90):
    if os.fork() == 0: time.sleep(20); os._exit(0)
escaped()`,
  },
  {
    name: "starts more threads than it may",
    guards: ["processes"],
    script: `
import threading
for i in range(90): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
escaped(); sys.stdout.flush(); os._exit(0)`,
  },
  // Where level C has no guards, these folders are the host's: what is written there must not meet what lies there.
  ...["/workspace", "/tmp", "/dev/shm"].map((folder): Attack => ({
    name: `fills ${folder}`,
    guards: ["disk"],
    script: `
with tempfile.NamedTemporaryFile(dir="${folder}") as f:
    for i in range(30): f.write(bytes(1 << 20)); f.flush()
escaped()`,
  })),
  {
    name: "makes more files than it may",
    guards: ["disk files"],
    script: `
for i in range(600): open(f"f{i}", "w").close()
escaped()`,
  },
  {
    name: "opens more files than it may",
    guards: ["open files"],
    script: `
opened = [open("/dev/null") for i in range(200)]
escaped()`,
  },
  {
    name: "leaves core files",
    guards: ["core files"],
    script: `
import resource
escaped(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)`,
  },
];

export const ATTACKS: readonly Attack[] = [...files, ...network, ...processes, ...kernel, ...bombs];
