// SPDX-License-Identifier: Apache-2.0
// Level C has other guards than A and B: Landlock where they have namespaces.
import type { PolicyFailure } from "../src/failure.ts";
import type { Guard } from "../src/process/guards.ts";
import type { Attack } from "./attack.ts";

/** What else stops an attack there. None: the rights of files alone, or what it looks for is not there. */
export const GUARDS_AT_C: Readonly<Record<string, readonly Guard[]>> = {
  "talks to a service's socket file": ["seccomp"],
  "writes beside its folders": [],
  "plants a device folder": [],
  "replaces /etc": [],
  "connects to a service of the host": ["seccomp", "network namespace"],
  "connects to an abstract socket of the host": ["seccomp", "process namespace"],
  "looks for network interfaces": ["root folder"],
  "looks at the host's connections": ["root folder"],
  "slows a process of the host down": ["seccomp"],
  "lists the host's processes": ["root folder"],
  "signals those that keep it": [],
  "attaches to shared memory of the host": ["seccomp"],
  "has capabilities": [],
  "mounts a file system in a namespace of its own": ["seccomp", "root folder"],
  "changes its root": [],
  "starts more threads than it may": ["processes", "memory"],
  "fills /workspace": [],
  "fills /tmp": ["root folder", "disk"],
  "fills /dev/shm": ["root folder", "disk"],
};

/** Of others who share the container, where each has no namespace of its own. */
export const NEIGHBOURS: readonly Attack[] = [
  {
    name: "reads the file of another sandbox",
    guards: ["root folder"],
    script: `escaped("secret" in open(T["neighbour"] + "/secret").read())`,
  },
  {
    name: "writes into another sandbox",
    guards: ["root folder"],
    script: `open(T["neighbour"] + "/planted", "w").write("x"); escaped()`,
  },
  {
    name: "looks for other sandboxes' folders",
    guards: ["root folder"],
    script: `escaped(len(os.listdir(os.path.dirname(os.path.dirname(T["neighbour"])))) > 1)`,
  },
  {
    name: "reads the variables of another process",
    guards: ["root folder", "process namespace", "network namespace"],
    script: `escaped(len(open(f"/proc/{T['victim']}/environ").read()) > 0)`,
  },
  {
    name: "reads the memory of another process",
    guards: ["root folder", "process namespace", "network namespace"],
    script: `open(f"/proc/{T['victim']}/mem", "rb"); escaped()`,
  },
  {
    name: "signals who keeps it",
    guards: ["process namespace"],
    script: `os.kill(os.getppid(), 0); escaped()`,
  },
  {
    name: "signals all that it can reach",
    guards: ["process namespace"],
    script: `
escaped(any(p.isdigit() and int(p) != os.getpid() and libc.kill(int(p), 0) == 0 for p in map(str, [T["victim"], os.getppid()])))`,
  },
  {
    name: "takes another process's files away by its limits",
    guards: ["seccomp"],
    script: `
import resource
resource.prlimit(T["victim"], resource.RLIMIT_NOFILE, (0, 0)); escaped()`,
  },
  {
    name: "binds another process to one core",
    guards: ["seccomp"],
    script: `os.sched_setaffinity(T["victim"], {0}); escaped()`,
  },
  {
    name: "slows all processes of its user down",
    guards: ["seccomp"],
    script: `os.setpriority(os.PRIO_USER, 0, 19); escaped()`,
  },
  {
    name: "writes a file that is larger than it may",
    guards: ["disk"],
    script: `
with open("big", "wb") as f:
    for i in range(30): f.write(bytes(1 << 20)); f.flush()
escaped()`,
  },
  {
    name: "opens a socket file's kind of socket",
    guards: ["seccomp"],
    script: `socket.socket(socket.AF_UNIX); escaped()`,
  },
];

/** What level C does not stop, in the words of docs/sandboxes.md; each is seen to get through. */
export const NOT_STOPPED_AT_C: readonly Attack[] = [
  {
    name: "learns the host's name",
    guards: [],
    script: `escaped(os.uname().nodename == T["hostname"])`,
  },
  {
    name: "learns that a file is there, its size and its time, if it knows the path",
    guards: [],
    script: `escaped(os.stat(T["secret"]).st_size == 6)`,
  },
  {
    name: "changes the mode of a file of its user, if it knows the path",
    guards: [],
    script: `os.chmod(T["neighbour"] + "/secret", 0o600); escaped()`,
  },
  {
    name: "makes more files than it may",
    guards: [],
    script: `
for i in range(600): open(f"f{i}", "w").close()
escaped()`,
  },
  {
    name: "fills its folder with several files",
    guards: [],
    script: `
for i in range(3): open(f"big{i}", "wb").write(bytes(10 << 20))
escaped()`,
  },
];

/** What is sampled ten times a second: it begins, and is ended by name. */
export const ENDED_AT_C: readonly (Attack & { readonly failure: PolicyFailure })[] = [
  {
    name: "starts more processes than it may",
    failure: "PROCESSES",
    guards: ["processes"],
    script: `
for i in range(90):
    if os.fork() == 0: time.sleep(20); os._exit(0)
time.sleep(2); escaped()`,
  },
  {
    name: "takes more memory than it may by several processes",
    failure: "MEMORY",
    guards: ["memory"],
    script: `
ready = []
for i in range(3):
    r, w = os.pipe()
    if os.fork() == 0:
        x = bytearray(40_000_000); os.write(w, b"x"); time.sleep(20); os._exit(0)
    ready.append(r)
for r in ready: os.read(r, 1)
time.sleep(2); escaped()`,
  },
];
