// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";

/** Whatever a grader throws is a GRADER failure. */
export async function graderFailed<T>(grade: () => Promise<T>): Promise<T> {
  try {
    return await grade();
  } catch (error) {
    const message = `the reward could not be computed: ${WhetstoneError.from(error).message}`;
    throw new EpisodeError("GRADER", message, { cause: error });
  }
}
