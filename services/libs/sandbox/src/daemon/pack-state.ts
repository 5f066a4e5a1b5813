// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { WhetstoneError } from "@whetstone/core";
import { SandboxError } from "../failure.ts";
import type { PreparedState } from "../sandbox.ts";

const PREPARE_MS = 600_000;
const run = promisify(execFile);

export interface PackOptions {
  /** Worth its time over a network, not within one machine. */
  readonly isCompressed: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Packs a folder into an archive of our own, which is sent to every sandbox that begins with it. @throws SandboxError START */
export async function packState(folder: string, { isCompressed, signal }: PackOptions): Promise<PreparedState> {
  const own = await mkdtemp(join(tmpdir(), "whetstone-prepared-"));
  const remove = (): Promise<void> => rm(own, { recursive: true, force: true });
  const path = join(own, isCompressed ? "state.tar.gz" : "state.tar");
  try {
    const format = isCompressed ? ["--gzip", "--format=gnu"] : ["--format=gnu"];
    const args = ["--create", ...format, "--file", path, "--directory", folder, "."];
    await run("tar", args, { timeout: PREPARE_MS, ...(signal ? { signal } : {}) });
  } catch (cause) {
    await remove();
    const why = WhetstoneError.from(cause).message;
    throw new SandboxError("START", `${folder} could not be prepared: ${why}`, { cause });
  }
  return { path, [Symbol.asyncDispose]: remove };
}
