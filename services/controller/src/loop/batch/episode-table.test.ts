// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { EpisodeSummarySchema, FailureClass, Purpose, TerminationReason } from "@whetstone/proto/types/v1/types";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EpisodeTable } from "./episode-table.ts";
import { keptSummary } from "../../../test-support/kept-summary.ts";

const one = create(EpisodeSummarySchema, {
  ...{ episodeId: "j/g12/s3", purpose: Purpose.TRAIN, attempt: 2, terminationReason: TerminationReason.ENV_DONE },
  ...{ failureClass: FailureClass.DEADLINE, reward: -0.1, isCorrect: true, digest: "0123456789abcdef".repeat(4) },
  ...{ minPolicyVersion: 5_000_000_000n, maxPolicyVersion: 5_000_000_001n, sampledTokens: 4_000_000_000 },
  ...{ unlabelledTokens: 1, demonstrationTokens: 2, steps: 3, promptTokens: 4, notTrainable: "every call was greedy" },
  ...{ failureMessage: "too late", failurePhase: "step", taskId: "t", taskSource: "s" },
  timing: { total: { seconds: 3n, nanos: 250_000_000 }, model: { nanos: 1_000_000 } },
});

function tableOf(...summaries: Parameters<typeof create<typeof EpisodeSummarySchema>>[1][]): EpisodeTable {
  const table = new EpisodeTable();
  for (const [i, summary] of summaries.entries()) table.add(i + 1, create(EpisodeSummarySchema, summary));
  return table;
}

describe("EpisodeTable", () => {
  it("gives back what is kept of a summary, and that a value was absent", () => {
    const table = tableOf(one, { episodeId: "j/g12/s4", digest: "ff".repeat(32) });
    const first = table.find("j/g12/s3");
    expect(first?.sequence).toBe(1n);
    expect(keptSummary(one)).toMatchObject(first?.summary ?? {});
    const second = table.find("j/g12/s4")?.summary;
    expect(second).toMatchObject({ failureMessage: "", notTrainable: "", totalMs: 0, digest: "ff".repeat(32) });
    expect([second?.minPolicyVersion, second?.maxPolicyVersion]).toEqual([undefined, undefined]);
    expect(table.find("j/g12/s5")).toBeUndefined();
  });

  it("takes the first seal of an id, and tells the ids in the order of their seals", () => {
    const ids = ["j/g0/s0", "j/v3-eval-7/s0", "j/v3-eval-700/s12"];
    const table = tableOf(...[...ids, "j/g0/s0"].map((episodeId, reward) => ({ episodeId, reward })));
    expect([table.size, table.find("j/g0/s0")?.summary.reward]).toEqual([3, 0]);
    expect([...table.idsAfter(0)]).toEqual(ids);
    expect([...table.idsAfter(2)]).toEqual(ids.slice(2));
  });

  it("takes no two ids for one, whatever they look like", () => {
    const part = fc.string({ unit: fc.constantFrom("0", "1", "9", "/", "g", "s", "-"), maxLength: 14 });
    fc.assert(
      fc.property(fc.uniqueArray(part, { minLength: 1, maxLength: 40 }), (ids) => {
        const table = tableOf(...ids.map((episodeId, steps) => ({ episodeId, steps })));
        expect(ids.map((id) => table.find(id)?.summary.steps)).toEqual([...ids.keys()]);
        expect([...table.idsAfter(0)]).toEqual(ids);
      }),
    );
  });

  it("keeps about a hundred bytes of an episode", () => {
    const before = process.memoryUsage().arrayBuffers;
    const count = 50_000;
    const table = tableOf();
    for (let i = 0; i < count; i++)
      table.add(i, create(EpisodeSummarySchema, { episodeId: `j/v0-eval-${i}/s0`, purpose: Purpose.VALIDATION }));
    expect((process.memoryUsage().arrayBuffers - before) / count).toBeLessThan(120);
    expect(table.find(`j/v0-eval-${count - 1}/s0`)?.sequence).toBe(BigInt(count - 1));
  });

  it("keeps a bounded number of different messages, and what cannot be trained stays so", () => {
    const table = new EpisodeTable();
    const last = 12_000;
    for (let i = 0; i <= last; i++)
      table.add(
        i,
        create(EpisodeSummarySchema, { episodeId: `j/g${i}/s0`, failureMessage: `at ${i}`, notTrainable: `n${i}` }),
      );
    expect(table.find("j/g9/s0")?.summary).toMatchObject({ failureMessage: "at 9", notTrainable: "n9" });
    const { failureMessage, notTrainable } = table.find(`j/g${last}/s0`)?.summary ?? {};
    expect(failureMessage).toMatch(/another message/);
    expect(notTrainable).not.toBe("");
  });
});
