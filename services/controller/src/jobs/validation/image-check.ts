// SPDX-License-Identifier: Apache-2.0
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { AgentKind } from "@whetstone/proto/rollouts/v1/rollouts";
import type { Violation } from "./violation.ts";

interface ShownSchema {
  readonly properties?: Readonly<Record<string, { readonly showsImages?: boolean }>>;
}

/**
 * Pictures in prompts: trainers and the engines that come with the product know token ids only. An agent's schema marks the
 * arguments that show pictures to the model (`showsImages`).
 * @param modelPath  the job's model, where it can be looked at
 */
export async function checkImages(spec: JobSpec, agent: AgentKind, modelPath: string): Promise<Violation[]> {
  const { properties = {} } = JSON.parse(agent.argsSchemaJson || "{}") as ShownSchema;
  const args = spec.agent?.args ?? {};
  const [shown] = Object.keys(properties).filter((name) => properties[name]?.showsImages && args[name] === true);
  if (shown === undefined) return [];
  const refuse = (reason: string): Violation[] => [{ path: `agent.args.${shown}`, reason }];
  if ((spec.loop?.steps ?? 0) > 0)
    return refuse("must be false in a job that trains: pictures in prompts cannot be trained on");
  if (spec.roles.some(({ model }) => model !== undefined)) return [];
  if (await mayHaveEyes(modelPath)) return [];
  return refuse(
    "must be false: the job's model takes no pictures (its config.json has no vision_config), and no role has a model of its own",
  );
}

/** True, too, where the folder cannot be looked at: its engines will say. */
async function mayHaveEyes(modelPath: string): Promise<boolean> {
  const text = await readFile(join(modelPath, "config.json"), "utf8").catch(() => undefined);
  return text === undefined || "vision_config" in (JSON.parse(text) as object);
}
