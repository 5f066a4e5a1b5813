// SPDX-License-Identifier: Apache-2.0
// A container has other guards than bubblewrap, and the engine's seccomp filter lets more through than ours.
import type { ContainerGuard } from "../src/docker/guards.ts";
import type { Attack } from "./attack.ts";
import { ATTACKS } from "./attacks.ts";

export interface ContainerAttack extends Omit<Attack, "guards"> {
  readonly guards: readonly ContainerGuard[];
}

/** What else stops an attack there. None: what it looks for is not there, or the daemon stops it. */
const GUARDS_IN_CONTAINERS: Readonly<Record<string, readonly ContainerGuard[]>> = {
  "writes beside its folders": ["read-only", "user"],
  "plants a device folder": ["user"],
  "replaces /etc": ["read-only", "user"],
  "slows a process of the host down": [],
  "signals those that keep it": [],
  "reads the service's environment": [],
  "has capabilities": ["capabilities", "user"],
  "changes its root": ["capabilities", "user"],
  "leaves core files": [],
};

/** What the engine's default seccomp filter does not stop, in the words of docs/sandboxes.md. None of it leads out. */
export const NOT_STOPPED_IN_CONTAINERS: readonly string[] = [
  "opens a socket of AF_INET",
  "opens a socket of AF_INET over UDP",
  "opens a socket of AF_INET6",
  "opens a socket of AF_NETLINK",
  "traces a process",
  "changes its descriptor table",
  "reads the clock's tuning",
];

/** Engines differ here, or there is nothing to be held. */
const LEFT_OUT: readonly string[] = [
  "reads /etc/passwd", // The image's own.
  "opens a netlink socket though it has a network", // There is no other network than none.
  "sets up io_uring",
  "gets a handle that opens files without their path",
];

export const IN_CONTAINERS: readonly ContainerAttack[] = ATTACKS.filter(({ name }) => !LEFT_OUT.includes(name)).map(
  ({ guards, ...attack }) => ({
    ...attack,
    guards: GUARDS_IN_CONTAINERS[attack.name] ?? (guards as readonly ContainerGuard[]),
  }),
);
