// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../..");

/** Where Math-Verify is installed in this checkout: by the command that users call, once. */
export function mathVerifyFolder(): string {
  const data = join(ROOT, ".whetstone");
  const folder = join(data, "math-verify");
  if (!existsSync(join(folder, "math_verify"))) {
    const main = join(ROOT, "services/cli/src/main.ts");
    execFileSync(process.execPath, [main, "setup", "--math-verify", "--data", data], { timeout: 300_000 });
  }
  return folder;
}
