// SPDX-License-Identifier: Apache-2.0
// System calls that a sandbox has no need of. Their numbers are those of x86-64.
import type { Attack } from "./attack.ts";

export const kernel: readonly Attack[] = [
  {
    name: "mounts a file system in a namespace of its own",
    guards: ["seccomp"],
    script: `syscall(272, 0x10020000); syscall(165, b"none", b"/tmp", b"tmpfs", 0, None); escaped()`,
  },
  {
    name: "opens a file system in a namespace of its own",
    guards: ["seccomp"],
    script: `syscall(272, 0x10020000); syscall(430, b"tmpfs", 0); escaped()`,
  },
  { name: "changes its root", guards: ["capabilities", "seccomp"], script: `syscall(161, b"/tmp"); escaped()` },
  ...Object.entries({
    "makes a user namespace": `syscall(272, 0x10000000)`,
    "makes a user namespace by clone": `
pid = syscall(56, 0x10000000 | 17, None, None, None, None)
if pid == 0: os._exit(0)`,
    "makes a process by clone3, whose flags no filter can see": `
args = ctypes.create_string_buffer(struct.pack("<11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
pid = syscall(435, args, 88)
if pid == 0: os._exit(0)`,
    "traces a process": `
pid = os.fork()
if pid == 0: time.sleep(5); os._exit(0)
syscall(101, 16, pid, None, None)`,
    "takes a descriptor out of another process": `
pid = os.fork()
if pid == 0: time.sleep(5); os._exit(0)
syscall(438, syscall(434, pid, 0), 0, 0)`,
    "compares kernel objects": `syscall(312, os.getpid(), os.getpid(), 1, 0, 0)`,
    "joins a keyring": `syscall(250, 1, None)`,
    "stores a key": `syscall(248, b"user", b"k", b"v", 1, -2)`,
    "handles page faults": `syscall(323, 1)`,
    "sets up io_uring": `syscall(425, 4, ctypes.create_string_buffer(256))`,
    "counts events": `syscall(298, ctypes.create_string_buffer(struct.pack("<IIQQQQQ", 1, 112, 1, 0, 0, 0, 0x60) + bytes(64)), 0, -1, -1, 0)`,
    "turns address randomisation off": `syscall(135, 0x0040000)`,
    "gets a handle that opens files without their path": `syscall(303, -100, b"/usr", ctypes.create_string_buffer(struct.pack("<II", 128, 0) + bytes(128)), ctypes.byref(ctypes.c_int()), 0)`,
    "opens a tree of mounts": `syscall(428, -100, b"/", 0)`,
    "changes its descriptor table": `syscall(154, 0, ctypes.create_string_buffer(64), 64)`,
    "reads the clock's tuning": `syscall(159, ctypes.create_string_buffer(256))`,
  }).map(([name, script]): Attack => ({ name, guards: ["seccomp"], script: `${script}\nescaped()` })),
];
