// SPDX-License-Identifier: Apache-2.0
// What a command might try against the daemon that started it, and against the pod or container that both are in.

/** A Python program that prints ESCAPED when it got what it wanted. */
export interface DaemonAttack {
  readonly name: string;
  readonly script: string;
}

const secrets: readonly DaemonAttack[] = [
  { name: "reads the daemon's environment", script: `escaped(len(open("/proc/1/environ").read()) >= 0)` },
  { name: "reads the daemon's memory", script: `open("/proc/1/mem", "rb"); escaped()` },
  { name: "lists the daemon's open files", script: `os.listdir("/proc/1/fd"); escaped()` },
  { name: "looks at the daemon's maps", script: `escaped(len(open("/proc/1/maps").read()) > 0)` },
  {
    name: "attaches to the daemon",
    script: `
libc = ctypes.CDLL(None, use_errno=True)
escaped(libc.ptrace(16, 1, 0, 0) == 0)`,
  },
  { name: "reads its keeper's memory", script: `open(f"/proc/{os.getppid()}/mem", "rb"); escaped()` },
  {
    name: "finds a key in its environment",
    script: `escaped(any("WHETSTONE" in n or "KUBERNETES" in n for n in os.environ))`,
  },
  {
    name: "finds a key on the command lines",
    script: `escaped(any(b"PRIVATE " + b"KEY" in line for line in command_lines()))`,
  },
  { name: "reads what its keeper's caller says", script: `open("/proc/1/fd/0", "rb"); escaped()` },
  { name: "answers in its daemon's place", script: `open("/proc/1/fd/1", "wb"); escaped()` },
];

const rights: readonly DaemonAttack[] = [
  ...["TERM", "KILL", "STOP", "QUIT", "SEGV", "ABRT", "HUP"].map((name) => ({
    name: `ends the daemon by SIG${name}`,
    // Whether it was ended is seen by whether there is an answer.
    script: `os.kill(1, signal.SIG${name}); time.sleep(0.3)`,
  })),
  ...[
    ["takes the daemon's open files away", "resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))"],
    ["takes its keeper's open files away", "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))"],
    ["slows the daemon down", "os.setpriority(os.PRIO_PROCESS, 1, 19)"],
    ["slows all processes of its user down", "os.setpriority(os.PRIO_USER, 0, 19)"],
    ["binds the daemon to one core", "os.sched_setaffinity(1, {0})"],
  ].map(([name = "", call]) => ({ name, script: `import resource\n${call}; escaped()` })),
  {
    name: "is root, or may become it",
    script: `
escaped(os.getuid() == 0)
escaped(any(l.startswith("CapBnd") and int(l.split()[1], 16) for l in open("/proc/self/status")))
escaped(any(l.startswith("NoNewPrivs") and l.split()[1] != "1" for l in open("/proc/self/status")))`,
  },
  {
    name: "writes to the system",
    script: `
for path in ("/planted", "/etc/planted", "/usr/planted", "/whetstone/bin/planted"):
    try: open(path, "w"); escaped()
    except OSError: pass`,
  },
  { name: "replaces the daemon's program", script: `os.unlink("/whetstone/bin/sandboxd"); escaped()` },
  {
    name: "mounts",
    script: `
libc = ctypes.CDLL(None, use_errno=True)
escaped(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None) == 0)`,
  },
  {
    name: "makes a user namespace to mount in",
    script: `
libc = ctypes.CDLL(None, use_errno=True)
escaped(libc.unshare(0x10000000 | 0x20000) == 0)`,
  },
  { name: "changes the kernel's settings", script: `open("/proc/sys/kernel/hostname", "w").write("x"); escaped()` },
];

export const DAEMON_ATTACKS: readonly DaemonAttack[] = [...secrets, ...rights];
