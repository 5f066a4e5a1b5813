// SPDX-License-Identifier: Apache-2.0
import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { EngineSchema, ListEnginesResponseSchema } from "@whetstone/proto/inference/v1/inference";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { StatusResponseSchema } from "@whetstone/proto/trainer/v1/trainer";
import { expect, it } from "vitest";
import { checkTransport } from "./weight-transport.ts";

const STORED: JsonObject = { loop: { steps: 1 }, weights: { transport: { objectStore: {} } } };
const away = (): Promise<never> => Promise.reject(new WhetstoneError("UNAVAILABLE", "away"));

/** What is said of a job. `trainer`, and engines by id: the store of each; undefined: it does not answer. */
async function said(
  trainer: string | undefined,
  engines: Readonly<Record<string, string | undefined>>,
  spec: JsonObject = STORED,
): Promise<string[]> {
  const listed = Object.keys(engines).map((id) => create(EngineSchema, { id, url: `http://${id}` }));
  const found = await checkTransport(fromJson(JobSpecSchema, spec), {
    trainerClient: {
      status: () =>
        trainer === undefined ? away() : Promise.resolve(create(StatusResponseSchema, { objectStore: trainer })),
    },
    engines: {
      fleetClient: { listEngines: () => Promise.resolve(create(ListEnginesResponseSchema, { engines: listed })) },
      engineTraits: (url) => {
        const objectStore = engines[url.replace("http://", "")];
        return objectStore === undefined ? away() : Promise.resolve({ objectStore, namesSupport: undefined });
      },
    },
  });
  return found.map(({ path, reason }) => `${path}: ${reason}`);
}

it.each([
  ["all have it", "s3://b/p", { e0: "s3://b/p", e1: "s3://b/p" }, []],
  ["nobody answers", undefined, { e0: undefined }, []],
  ["the trainer has none", "", { e0: "s3://b/p" }, [/^weights\.transport\.objectStore: the trainer has no object/]],
  ["an engine has none", "s3://b/p", { e0: "s3://b/p", e1: "" }, [/objectStore: engine e1 has no object store/]],
  [
    "an engine has none, the trainer is away",
    undefined,
    { e1: "" },
    [/engine e1 has no object store: start it with --/],
  ],
  [
    "an engine has another",
    "s3://b/p",
    { e0: "s3://b/q" },
    [/engine e0 reads weights from s3:\/\/b\/q, and the .*b\/p$/],
  ],
] as const)("a job for an object store where %s", async (_what, trainer, engines, expected) => {
  expect(await said(trainer, engines)).toEqual(expected.map((pattern) => expect.stringMatching(pattern) as string));
});

it("asks nobody for other jobs", async () => {
  expect(await said("", { e0: "" }, { loop: { steps: 1 }, weights: { transport: { stream: {} } } })).toEqual([]);
  expect(await said("", { e0: "" }, { ...STORED, loop: { steps: 0 } })).toEqual([]);
});
