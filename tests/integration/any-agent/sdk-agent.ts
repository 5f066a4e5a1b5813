// SPDX-License-Identifier: Apache-2.0
// A job whose agent is the AI SDK's tool loop as its own page has it: base URL and key are all that it is told. Like many it
// asks for one answer only, temperature 0 and a seed, which the job overrides.
import { createOpenAI } from "@ai-sdk/openai";
import { defineJob, defineRollout, grpo } from "@whetstone/sdk";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

const toolLoop = defineRollout({
  kind: "ai-sdk",
  run: async ({ baseUrl, apiKey, model, signal }) => {
    const openai = createOpenAI({ baseURL: baseUrl, apiKey });
    const { text } = await generateText({
      model: openai(model),
      prompt: "Say aaaa.",
      maxOutputTokens: 12,
      temperature: 0,
      seed: 1,
      tools: {
        look: tool({
          description: "Looks",
          inputSchema: z.object({ n: z.number() }),
          execute: ({ n }) => `nothing in ${n}`,
        }),
      },
      stopWhen: stepCountIs(10),
      abortSignal: signal,
    });
    return { reward: [...text].filter((letter) => letter < "a").length / 12 };
  },
});

export default defineJob({
  rollout: { kind: toolLoop, clientSampling: "override" },
  train: { seeds: { first: 1, count: 1_000 } },
  algorithm: grpo({ groupSize: 4, learningRate: 1e-3 }),
  loop: { steps: 2, batchGroups: 2 },
});
