// SPDX-License-Identifier: Apache-2.0
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { Purpose } from "@whetstone/proto/types/v1/types";

/** Whether a task plays code of its job's own. Demonstrations play nobody's. */
export function needsModule({ module, purpose }: RolloutTask): boolean {
  return module !== undefined && purpose !== Purpose.DEMONSTRATION;
}
