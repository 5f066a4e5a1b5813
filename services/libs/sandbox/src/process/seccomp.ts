// SPDX-License-Identifier: Apache-2.0
import type { SandboxNetwork } from "../sandbox.ts";

// A filter in classic BPF: everything is allowed but what only makes a kernel's surface larger, and what a sandbox is left by.

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;

/** System call → its number on x86-64 and on arm64; null: it is not there. */
const DENIED = {
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  keyctl: [250, 219],
  add_key: [248, 217],
  request_key: [249, 218],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  quotactl: [179, 60],
  acct: [163, 89],
  syslog: [103, 116],
  personality: [135, 92],
  open_by_handle_at: [304, 265],
  name_to_handle_at: [303, 264],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  iopl: [172, null],
  ioperm: [173, null],
  modify_ldt: [154, null],
} as const satisfies Record<string, readonly [number, number | null]>;

/** Where there is no namespace for them, a sandbox meets others there. */
const SHARED = {
  shmget: [29, 194],
  shmat: [30, 196],
  shmctl: [31, 195],
  semget: [64, 190],
  semop: [65, 193],
  semctl: [66, 191],
  semtimedop: [220, 192],
  msgget: [68, 186],
  msgsnd: [69, 189],
  msgrcv: [70, 188],
  msgctl: [71, 187],
  mq_open: [240, 180],
  mq_unlink: [241, 181],
} as const satisfies Record<string, readonly [number, number]>;

/** Calls that change a process: with the argument that names it (0 is the caller), and the value of the first for "all of a user". */
const OF_A_PROCESS = {
  setpriority: { numbers: [141, 140], process: 1, ofUser: 2 },
  ioprio_set: { numbers: [251, 30], process: 1, ofUser: 3 },
  sched_setaffinity: { numbers: [203, 122], process: 0, ofUser: undefined },
  sched_setscheduler: { numbers: [144, 119], process: 0, ofUser: undefined },
  sched_setparam: { numbers: [142, 118], process: 0, ofUser: undefined },
  sched_setattr: { numbers: [314, 274], process: 0, ofUser: undefined },
  prlimit64: { numbers: [302, 261], process: 0, ofUser: undefined },
} as const;

const ARCHITECTURES = {
  x64: { index: 0, audit: 0xc000003e, clone: 56, clone3: 435, socket: 41 },
  arm64: { index: 1, audit: 0xc00000b7, clone: 220, clone3: 435, socket: 198 },
} as const;

export function isFilterable(architecture: string): architecture is keyof typeof ARCHITECTURES {
  return architecture in ARCHITECTURES;
}

const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_ABOVE = 0x35;
const IF_ANY_BIT = 0x45;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const refuse = (errno: number): number => 0x50000 | errno;
/** Offsets in `struct seccomp_data`. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const FIRST_ARGUMENT = 16;
/** CLONE_NEWNS … CLONE_NEWNET, of clone's flags. */
const NEW_NAMESPACES = 0x7e020000;
const X32_BIT = 0x40000000;
/** No process has this id. */
const NOBODY = 0xffffffff;
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;

export interface FilterOptions {
  readonly network: SandboxNetwork;
  /** It shares process, network and IPC namespace with others: no sockets, and no call that names another process. */
  readonly shared?: boolean;
}

export function seccompFilter(
  architecture: keyof typeof ARCHITECTURES,
  { network, shared = false }: FilterOptions,
): Buffer {
  const { index, audit, clone, clone3, socket } = ARCHITECTURES[architecture];
  const families = shared ? [] : network === "none" ? [AF_UNIX] : [AF_UNIX, AF_INET, AF_INET6];
  const program: number[][] = [];
  const add = (code: number, ifTrue: number, ifFalse: number, value: number): unknown =>
    program.push([code, ifTrue, ifFalse, value]);
  const refuseCall = (number: number, errno: number): void => {
    add(IF_EQUAL, 0, 1, number);
    add(RETURN, 0, 0, refuse(errno));
  };
  add(LOAD, 0, 0, ARCHITECTURE);
  add(IF_EQUAL, 1, 0, audit);
  add(RETURN, 0, 0, KILL);
  add(LOAD, 0, 0, NUMBER);
  add(IF_ABOVE, 0, 1, X32_BIT);
  add(RETURN, 0, 0, refuse(ENOSYS));
  for (const numbers of Object.values(DENIED)) if (numbers[index] !== null) refuseCall(numbers[index], EPERM);
  // With ENOSYS libc falls back to clone, whose flags can be looked at; clone3's lie behind a pointer.
  refuseCall(clone3, ENOSYS);
  add(IF_EQUAL, 0, 4, clone);
  add(LOAD, 0, 0, FIRST_ARGUMENT);
  add(IF_ANY_BIT, 0, 1, NEW_NAMESPACES);
  add(RETURN, 0, 0, refuse(EPERM));
  add(RETURN, 0, 0, ALLOW);
  if (shared) {
    for (const numbers of Object.values(SHARED)) refuseCall(numbers[index], EPERM);
    for (const { numbers, process, ofUser } of Object.values(OF_A_PROCESS)) {
      add(IF_EQUAL, 0, 7, numbers[index]);
      add(LOAD, 0, 0, FIRST_ARGUMENT + 8 * process);
      add(IF_EQUAL, 1, 0, 0);
      add(RETURN, 0, 0, refuse(EPERM));
      add(LOAD, 0, 0, FIRST_ARGUMENT);
      add(IF_EQUAL, 0, 1, ofUser ?? NOBODY);
      add(RETURN, 0, 0, refuse(EPERM));
      add(RETURN, 0, 0, ALLOW);
    }
  }
  add(IF_EQUAL, 0, families.length + 2, socket);
  add(LOAD, 0, 0, FIRST_ARGUMENT);
  families.forEach((family, i) => add(IF_EQUAL, families.length - i, 0, family));
  add(RETURN, 0, 0, refuse(EAFNOSUPPORT));
  add(RETURN, 0, 0, ALLOW);
  return encode(program);
}

function encode(program: readonly number[][]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code = 0, ifTrue = 0, ifFalse = 0, value = 0], i) => {
    bytes.writeUInt16LE(code, i * 8);
    bytes.writeUInt8(ifTrue, i * 8 + 2);
    bytes.writeUInt8(ifFalse, i * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, i * 8 + 4);
  });
  return bytes;
}
