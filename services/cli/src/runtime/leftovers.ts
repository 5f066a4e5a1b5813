// SPDX-License-Identifier: Apache-2.0
/** What a killed runtime left behind: children that the kernel did not end with it (macOS), or that are still ending. */
import { isSameProcess } from "./processes.ts";
import type { RuntimeState } from "./state-file.ts";
import { STOP_WITHIN_MS, endGroup } from "./supervised-service.ts";

/** Ends the services of a dead runtime. Only processes with the recorded start time: ids are used again. */
export async function endLeftovers(state: RuntimeState | undefined): Promise<void> {
  const services = state?.services ?? [];
  await Promise.all(
    services.map(async ({ pid, started }) => {
      if (pid === undefined || started === undefined || !isSameProcess(pid, started)) return;
      // Not "the group is empty": a container's first process may never reap orphans.
      await endGroup(pid, STOP_WITHIN_MS, () => !isSameProcess(pid, started));
    }),
  );
}
