// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import type { TypedStreams } from "@whetstone/messaging";
import { EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";
import { countTurns } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { StreamEpisodeIndex, SUMMARY_HEADER } from "./stream-episode-index.ts";

it("leaves others their turns while it reads the headers of many episodes that lie there", async () => {
  const count = 20_000;
  async function* readFrom() {
    for (let sequence = 1; sequence <= count; sequence++) {
      const bytes = toBinary(EpisodeSummarySchema, create(EpisodeSummarySchema, { episodeId: `j/g${sequence}/s0` }));
      const headers = { [SUMMARY_HEADER]: Buffer.from(bytes).toString("base64") };
      yield await Promise.resolve({ sequence, headers });
    }
  }
  await using index = new StreamEpisodeIndex({ readFrom } as unknown as TypedStreams, "j", silentLogger);
  const read = async (): Promise<void> => {
    while (index.size < count) await index.grown(index.size, new AbortController().signal);
  };
  expect(await countTurns(read)).toBeGreaterThan(count / 200);
  expect(index.find(`j/g${count}/s0`)?.sequence).toBe(BigInt(count));
});
