// SPDX-License-Identifier: Apache-2.0
import { HOST_AND_PORT, LEVELS, MOST_REACHED } from "@whetstone/sandbox";
import { z } from "zod";

const name = z.string().min(1).max(63);

const network = z
  .array(z.string().max(300).regex(HOST_AND_PORT, "must be host:port"))
  .max(MOST_REACHED)
  .default([])
  .describe(
    "host:port that its commands may connect to, through the proxy that HTTPS_PROXY names; nothing else is reached",
  );

const onThisMachine = z.strictObject({ backend: z.literal("process"), network });
const inContainers = z.strictObject({
  backend: z.literal("docker"),
  image: z.string().min(1).max(500).optional().describe("name of the image, where tasks do not name theirs"),
  pull: z
    .enum(["never", "missing"])
    .default("never")
    .describe("never: an image that the engine does not have is refused; missing: it is pulled"),
  network,
});
const inPods = z.strictObject({
  backend: z.literal("kubernetes"),
  pool: name.describe("name of a SandboxPool"),
  network,
});
const inPodsOfImages = inPods.extend({
  pool: name.optional().describe("name of a SandboxPool. Default: the one whose image the task names"),
});

const WHERE =
  "process: on the env-runner's own machine; docker: a container each of the engine on that machine; kubernetes: a pod each, claimed from a SandboxPool";

/** Where the sandboxes of an environment are: an argument of all that use them. */
export const SandboxChoice = z
  .discriminatedUnion("backend", [onThisMachine, inPods, inContainers])
  .default({ backend: "process", network: [] })
  .describe(WHERE);

/** The same, of environments whose tasks may name an image. */
export const SandboxChoiceOfImages = z
  .discriminatedUnion("backend", [onThisMachine, inPodsOfImages, inContainers])
  .default({ backend: "process", network: [] })
  .describe(WHERE);

export type SandboxChoice = z.output<typeof SandboxChoiceOfImages>;

/** The same, of sandboxes on the env-runner's own machine. */
export const LeastLevel = z
  .enum(LEVELS)
  .optional()
  .describe("refused where only a weaker sandbox can be had; A is the strongest (docs/sandboxes.md)");

/** What the arguments of an environment say of its sandboxes. */
export interface SandboxArguments {
  readonly sandbox: SandboxChoice;
  readonly sandboxLevel?: z.output<typeof LeastLevel>;
}
