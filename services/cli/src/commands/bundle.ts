// SPDX-License-Identifier: Apache-2.0
/** `whet bundle push`: a module into the store, for jobs that are made by `kubectl apply`. */
import { bundleModule } from "@whetstone/modules/bundle";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";

import { clientOf, SUBMIT_DEADLINE_MS } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export async function pushBundle(file: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  const { code } = await bundleModule(file);
  const address = controllerAddress(flags.data, context.environment);
  await using jobs = clientOf(JobService, { role: "controller", address }, context.environment);
  const { digest } = await jobs.pushModule({ moduleCode: code }, { deadlineMs: SUBMIT_DEADLINE_MS });
  if (flags.json === true) return context.terminal.json({ digest, bytes: code.length });
  context.terminal.line(digest); // Alone, so that a script can take it.
}
