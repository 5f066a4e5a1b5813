// SPDX-License-Identifier: Apache-2.0
// Some hundreds of mutated requests to each endpoint, and random bytes: every answer is a right one or refuses in the dialect's own
// form, and who speaks beside them notices nothing. `make fuzz-gateway` does it a hundred thousand times.
import { afterAll, beforeAll, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { answerByIds, callsAtEngines, converse } from "../test/fuzz/bystander.ts";
import { fuzzBytes, fuzzEndpoint } from "../test/fuzz/fuzz.ts";
import { ENDPOINTS } from "../test/fuzz/sound-requests.ts";
import { type Gateway, serve, startGateway, tempFolder } from "../test/harness.ts";
import { FIRST_MARK, templatedModel } from "../test/templated-model.ts";

const SEED = 11;
const TURNS = 6;
const folder = tempFolder();
let engine: FakeEngine;
let gateway: Gateway;
let undisturbed: string;

beforeAll(async () => {
  engine = await FakeEngine.start();
  engine.script = answerByIds;
  engine.ends.add(FIRST_MARK);
  gateway = await startGateway({ agentPort: 0, maxBodyBytes: 65_536 });
  await serve(gateway, "e0", engine.url, templatedModel(folder.path, "qwen3"));
  undisturbed = await converse(gateway.httpUrl, "bystander", TURNS);
});
afterAll(async () => {
  await gateway.close();
  await engine.kill();
  folder[Symbol.dispose]();
});

it.each(ENDPOINTS.map((endpoint) => [endpoint.path, endpoint] as const))(
  "answers whatever comes to %s",
  async (_path, endpoint) => {
    const target = { httpUrl: gateway.httpUrl, agentsUrl: gateway.agentsUrl ?? "" };
    const fuzzing = fuzzEndpoint(target, endpoint, { seed: SEED, count: 400, concurrency: 4 });
    const beside = await converse(gateway.httpUrl, "bystander", TURNS);
    const { faults, byStatus, requests } = await fuzzing;
    expect(faults).toEqual([]);
    expect(requests).toBe(400);
    expect(
      [byStatus["200"], byStatus["400"]].every((count) => (count ?? 0) > 10),
      JSON.stringify(byStatus),
    ).toBe(true);
    expect(beside).toBe(undisturbed);
    expect(await callsAtEngines(gateway.httpUrl)).toBe(0);
  },
);

it("answers random bytes, and goes on", async () => {
  for (const url of [gateway.httpUrl, gateway.agentsUrl ?? ""])
    expect((await fuzzBytes(url, 20_000)).faults).toEqual([]);
  expect(await converse(gateway.httpUrl, "bystander", TURNS)).toBe(undisturbed);
});
