// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import type { TypedStreams } from "@whetstone/messaging";
import { BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import { JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSummarySchema } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { SUMMARY_HEADER } from "../../loop/batch/stream-episode-index.ts";
import { JobRecords } from "./job-records.ts";

it("explains a large batch by reading a bounded number of its episodes at a time, in the manifest's order", async () => {
  const entries = Array.from({ length: 1_000 }, (_, i) => ({ episodeId: `j/g${i}/s0`, sequence: BigInt(i + 1) }));
  const manifest = create(BatchManifestSchema, { job: "j", entries });
  let [reading, most] = [0, 0];
  const getBySequence = async (_stream: string, _schema: unknown, sequence: number) => {
    most = Math.max(most, ++reading);
    await Promise.resolve();
    reading--;
    const bytes = toBinary(EpisodeSummarySchema, create(EpisodeSummarySchema, { episodeId: `j/g${sequence - 1}/s0` }));
    return { headers: { [SUMMARY_HEADER]: Buffer.from(bytes).toString("base64") } };
  };
  const ledger = {
    batches: { get: () => Promise.resolve({ value: manifest }) },
    steps: { get: () => Promise.resolve() },
  };
  type Given = ConstructorParameters<typeof JobRecords>;
  const streams = { getBySequence } as unknown as TypedStreams;
  const records = new JobRecords(streams, ledger as unknown as Given[1], () => "/runs");
  const { episodes } = await records.explain(create(JobSchema, { spec: { name: "j" } }), 0);
  expect(episodes.map(({ episodeId }) => episodeId)).toEqual(entries.map(({ episodeId }) => episodeId));
  expect(most).toBeLessThanOrEqual(64);
});

it("finds the step that trained an episode, also where groups were replaced", async () => {
  // Of two groups each; batch 0 had group 4 in place of one, batch 1 had 7.
  const groups = [
    [0n, 1n, 4n],
    [2n, 3n, 7n],
    [5n, 6n],
  ];
  const stepOf = (key: string): number => Number(key.slice(key.lastIndexOf(".") + 1));
  const at = (list: readonly bigint[] | undefined) => list?.map((group) => ({ episodeId: `j/g${group}/s0` }));
  const found = <T>(value: T | undefined) => Promise.resolve(value && { value });
  const ledger = {
    batches: { get: (key: string) => found({ entries: at(groups[stepOf(key)]) ?? [] }) },
    steps: { get: () => found({ dropped: [] }) },
    dispatches: {
      get: (key: string) => {
        const list = groups[stepOf(key)];
        return found(list && { step: stepOf(key), samples: list.map(() => 1), groups: list });
      },
    },
  };
  type Given = ConstructorParameters<typeof JobRecords>;
  const streams = { getLast: () => Promise.resolve({ body: () => Promise.resolve({}) }) } as unknown as TypedStreams;
  const records = new JobRecords(streams, ledger as unknown as Given[1], () => "/runs");
  const steps = [];
  for (let group = 0; group < 9; group++) steps.push((await records.episode(`j/g${group}/s0`, 2)).trainedInStep);
  expect(steps).toEqual([0, 0, 1, 1, 0, 2, 2, 1, undefined]);
});
