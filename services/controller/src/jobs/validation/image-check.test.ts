// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AgentKindSchema } from "@whetstone/proto/rollouts/v1/rollouts";
import { afterAll, describe, expect, it } from "vitest";
import { checkImages } from "./image-check.ts";

const folder = mkdtempSync(join(tmpdir(), "whetstone-images-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const properties = { images: { type: "boolean", showsImages: true }, history: { type: "string" } };
const WEB = create(AgentKindSchema, { kind: "web", argsSchemaJson: JSON.stringify({ properties }) });

function check({ args, steps = 0, external = false }: { args: JsonObject; steps?: number; external?: boolean }) {
  const roles = external ? [{ name: "agent", model: { baseUrl: "http://x", model: "m" } }] : [];
  return checkImages(create(JobSpecSchema, { agent: { kind: "web", args }, loop: { steps }, roles }), WEB, folder);
}

function modelWith(config: object): void {
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
}

describe("an agent that shows pictures to the model", () => {
  const args = { images: true };

  it("is refused in a job that trains, by the argument's path", async () => {
    modelWith({ vision_config: {} });
    expect(await check({ args, steps: 1 })).toMatchObject([
      { path: "agent.args.images", reason: expect.stringMatching(/cannot be trained/u) as string },
    ]);
    expect(await check({ args: { images: false, history: "last" }, steps: 1 })).toEqual([]);
  });

  it("is evaluated with a model that sees, or with another server's, and refused with one that does not", async () => {
    modelWith({ vision_config: {} });
    expect(await check({ args })).toEqual([]);
    modelWith({ model_type: "llama" });
    expect(await check({ args })).toMatchObject([
      { path: "agent.args.images", reason: expect.stringMatching(/vision_config/u) as string },
    ]);
    expect(await check({ args, external: true })).toEqual([]);
  });

  it("is left to the engines where the model cannot be looked at", async () => {
    rmSync(join(folder, "config.json"), { force: true });
    expect(await check({ args })).toEqual([]);
  });
});
