// SPDX-License-Identifier: Apache-2.0
// The engine of fuzz-gateway.ts: the same answer to the same ids, and none to ids that no model has. Prints its URL; ends with its stdin.
import { FakeEngine } from "../../../services/inference-gateway/test/fake-engine.ts";
import { answerByIds } from "../../../services/inference-gateway/test/fuzz/bystander.ts";
import { FIRST_MARK } from "../../../services/inference-gateway/test/templated-model.ts";

/** Beyond the ids of the family's marks. */
const VOCABULARY = FIRST_MARK + 16;
const KEPT_REQUESTS = 1_000;

const engine = await FakeEngine.start();
engine.ends.add(FIRST_MARK);
engine.vocabularySize = VOCABULARY;
engine.script = (request) => {
  if (engine.requests.length > KEPT_REQUESTS) engine.requests.length = 0;
  return answerByIds(request);
};
process.stdout.write(`${engine.url}\n`);
process.stdin.resume().once("end", () => process.exit(0));
