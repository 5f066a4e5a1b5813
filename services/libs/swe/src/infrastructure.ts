// SPDX-License-Identifier: Apache-2.0
import { SandboxError } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";

/** I6: what goes wrong with a sandbox says nothing about the policy. @throws EpisodeError INFRASTRUCTURE for it */
export async function ofThePlatform<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
  }
}
