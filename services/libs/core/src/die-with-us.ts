// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => existsSync(path));

/**
 * The command of a child that gets `signal` from the kernel when the thread that started it ends, however that ends. Where there is
 * no setpriv (util-linux, so not on macOS) the same command.
 */
export function dieWithUs(signal: "TERM" | "KILL", ...command: readonly [string, ...string[]]): [string, ...string[]] {
  return process.platform === "linux" && SETPRIV ? [SETPRIV, "--pdeathsig", signal, ...command] : [...command];
}
