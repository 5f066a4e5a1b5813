// SPDX-License-Identifier: Apache-2.0
import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { EngineSchema, ListEnginesResponseSchema } from "@whetstone/proto/inference/v1/inference";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { expect, it } from "vitest";
import { checkTruncatedSampling } from "./truncated-sampling.ts";

const OURS = ["top_p", "top_k", "min_p"];
const TRAINED: JsonObject = { loop: { steps: 1 }, algorithm: { policyGradient: {} } };

/** What is said of a job. `engines`: what each names, by id; undefined: it says nothing of that; null: it does not answer. */
async function said(
  sampling: JsonObject,
  engines: Readonly<Record<string, readonly string[] | undefined | null>>,
  spec: JsonObject = TRAINED,
): Promise<string[]> {
  const listed = Object.keys(engines).map((id) => create(EngineSchema, { id, url: `http://${id}` }));
  const found = await checkTruncatedSampling(fromJson(JobSpecSchema, { ...spec, sampling }), {
    fleetClient: { listEngines: () => Promise.resolve(create(ListEnginesResponseSchema, { engines: listed })) },
    engineTraits: (url) => {
      const namesSupport = engines[url.replace("http://", "")];
      if (namesSupport === null) return Promise.reject(new WhetstoneError("UNAVAILABLE", "away"));
      return Promise.resolve({ objectStore: "", namesSupport });
    },
  });
  return found.map(({ path, reason }) => `${path}: ${reason}`);
}

it.each([
  ["every engine names what is drawn from", { topP: 0.9, topK: 8, minP: 0.1 }, { e0: OURS, e1: OURS }, []],
  ["nothing is left out", { topP: 1, temperature: 0.5 }, { e0: [] }, []],
  ["an engine does not say", { topP: 0.9 }, { e0: undefined }, []],
  ["no engine answers", { topP: 0.9 }, { e0: null }, []],
  [
    "one of two names nothing",
    { topP: 0.9, minP: 0.1 },
    { e0: OURS, e1: [] },
    [/^sampling\.topP: engine e1 does not name .* top_p .*leave topP out/, /^sampling\.minP: engine e1 .* min_p /],
  ],
  ["an engine names it for others only", { topK: 8, topP: 0.9 }, { e0: ["top_k"] }, [/^sampling\.topP: engine e0 /]],
] as const)("a job where %s", async (_what, sampling, engines, expected) => {
  expect(await said(sampling, engines)).toEqual(expected.map((pattern) => expect.stringMatching(pattern) as string));
});

it("is not asked of jobs that train nothing that was sampled", async () => {
  expect(await said({ topP: 0.9 }, { e0: [] }, { ...TRAINED, loop: { steps: 0 } })).toEqual([]);
  expect(await said({ topP: 0.9 }, { e0: [] }, { ...TRAINED, algorithm: { sft: {} } })).toEqual([]);
});
