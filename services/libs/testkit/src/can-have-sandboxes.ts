// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";

/**
 * A laptop may have no bubblewrap, or refuse user namespaces: tests of sandboxes are left out there. Root can have both, so that
 * where CI runs they are never left out.
 */
export const canHaveSandboxes = process.platform === "linux" && (process.getuid?.() === 0 || works());

function works(): boolean {
  try {
    execFileSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
