// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { waitFor } from "./wait-for.ts";

/**
 * Starts a process that attacks try to reach: `sleep`, called `whetstone-victim`, with this process's environment. Where root calls,
 * it has the user that sandboxes have, so that nothing but its own process namespace keeps a sandbox from it.
 */
export async function startVictim(uid: number): Promise<ChildProcess> {
  const isRoot = process.getuid?.() === 0;
  const become = isRoot ? ["setpriv", "--reuid", `${uid}`, "--regid", `${uid}`, "--clear-groups"] : [];
  const [program = "", ...args] = [...become, "bash", "-c", "exec -a whetstone-victim sleep 120"];
  const victim = spawn(program, args, { stdio: "ignore" });
  const isSleep = () => readFileSync(`/proc/${victim.pid}/comm`, "utf8") === "sleep\n";
  await waitFor(isSleep, { what: "the process that is attacked" });
  return victim;
}
