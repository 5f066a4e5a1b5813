import assert from "node:assert/strict";
import { test } from "node:test";

import { AgentExecutionEngine, type ChatMessage, type Info, type RolloutClient } from "@whetstone/sdk";

import { TypingAgent } from "../src/agent.ts";
import { TypingEnv } from "../src/environment.ts";

/** A model that says what it is told to: episodes without any server. */
function scripted(answer: (messages: readonly ChatMessage[]) => string): RolloutClient {
  return {
    chat: async (messages) => ({
      text: answer(messages),
      finishReason: "stop",
      usage: { promptTokens: 8, completionTokens: 8 },
      callId: "",
    }),
  };
}

async function play(rolloutClient: RolloutClient, payload: Info = {}) {
  const engine = new AgentExecutionEngine({
    rolloutClient,
    agentFactory: () => new TypingAgent(),
    environmentFactory: (args) => new TypingEnv(args),
  });
  const [episode] = await engine.executeTasks([{ id: "t", payload }]);
  assert(episode);
  return episode;
}

test("an answer of the kind asked for is paid in full, in every turn", async () => {
  const episode = await play(scripted((messages) => (messages.at(-1)?.content === "digits" ? "1234" : "abcd")));
  assert.equal(episode.terminationReason, "ENV_DONE");
  assert.equal(episode.reward, 1);
  assert.equal(episode.isCorrect, true);
  assert.deepEqual(
    episode.trajectories[0]?.steps.map((step) => step.observation),
    ["letters", "digits"],
  );
});

test("another answer is paid by its share, and the task's seed says what comes first", async () => {
  const episode = await play(
    scripted(() => "a1--"),
    { seed: 1 },
  );
  assert.equal(episode.reward, 0.25);
  assert.equal(episode.isCorrect, false);
  assert.equal(episode.trajectories[0]?.steps[0]?.observation, "digits");
});
