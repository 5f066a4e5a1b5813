// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { JobSchema, StepRecordSchema, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import { canMountVolumes, smallVolume } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { checkLogFolder, EventFolder } from "./event-folder.ts";
import { pointEvent, pointOf, versionEvent } from "./event.ts";
import type { MetricsPoint } from "./metrics-point.ts";
import { pointDocument, stepPoint, validationPoint } from "./metrics-point.ts";
import { frameOf, recordsOf } from "./record-frames.ts";

const job = create(JobSchema, { spec: { name: "lake" }, uid: "0123456789ab" });
let logs: string;
beforeEach(() => void (logs = mkdtempSync(join(tmpdir(), "whet-events-"))));
afterEach(() => rmSync(logs, { recursive: true }));

const at = (step: number, name = "policy_version"): MetricsPoint => {
  const scalars = [[name, step + 1] as const, ["loss", -step / 8] as const] as const;
  return { step, time: new Date(1_700_000_000_000 + step * 250), scalars };
};

/** Writes as one call of the command does; which of the points were new? */
function write(...points: MetricsPoint[]): boolean[] {
  using folder = new EventFolder(logs, job);
  return points.map((point) => folder.add(point));
}

const files = (): string[] => readdirSync(join(logs, "lake-01234567")).map((file) => join(logs, "lake-01234567", file));
const pointsOf = (file: string) => Array.from(recordsOf(readFileSync(file)), pointOf);

describe("event files", () => {
  it("are what TensorBoard's own writer writes, byte for byte", () => {
    // tensorboard 2.21: RecordWriter over Event(wall_time, file_version) and Event(wall_time, step, summary).
    const theirs =
      "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9" +
      "3200000000000000241956ec0900001040fc54d94110ac022a240a150a0e706f6c6963795f766572" +
      "73696f6e15008096430a0b0a046c6f737315cdccccbd9f64a3f7";
    const time = new Date(1_700_000_000_250);
    const point = { step: 300, time, scalars: [["policy_version", 301] as const, ["loss", -0.1] as const] as const };
    const ours = [versionEvent(time), pointEvent(point)].map((event) => Buffer.from(frameOf(event)).toString("hex"));
    expect(ours.join("")).toBe(theirs);
  });

  it("take numbers that a float cannot hold", () => {
    const scalars = [["a", NaN] as const, ["b", 1e300] as const] as const;
    expect(pointOf(pointEvent({ ...at(0), scalars }))).toEqual({ step: 0, name: "a" });
  });

  it("hold each point once, however often they are asked for; what is new goes to a later file", () => {
    expect(write(at(0), at(1), at(1, "validation/greedy/episodes"), at(1))).toEqual([true, true, true, false]);
    expect(write(at(0), at(1), at(1, "validation/greedy/episodes"))).toEqual([false, false, false]);
    expect(files()).toHaveLength(1);
    expect(write(at(1), at(2), at(1, "validation/sampled/episodes"))).toEqual([false, true, true]);
    const [first = "", second = ""] = files();
    expect(pointsOf(first).map((point) => point?.step)).toEqual([undefined, 0, 1, 1]);
    expect(pointsOf(second)).toEqual([
      undefined,
      { step: 2, name: "policy_version" },
      { step: 1, name: "validation/sampled/episodes" },
    ]);
  });

  it("lose only the point that their writer was ended in, and have it again after the next call", () => {
    write(at(0), at(1));
    const [file = ""] = files();
    truncateSync(file, readFileSync(file).length - 3);
    expect(write(at(0), at(1))).toEqual([false, true]);
  });

  it("end where a byte is not what was written", () => {
    write(at(0), at(1), at(2));
    const [file = ""] = files();
    const bytes = readFileSync(file);
    for (const [back, whole] of [
      [6, 2], // in the last event
      [pointEvent(at(2)).length + 14, 2], // in its length
    ] as const) {
      const bad = Buffer.from(bytes);
      bad[bad.length - back] = (bad[bad.length - back] ?? 0) ^ 1;
      expect([...recordsOf(bad)]).toHaveLength(1 + whole);
    }
    expect([...recordsOf(bytes)]).toHaveLength(4);
  });

  it("of a job whose name was used before are in a folder of their own", () => {
    write(at(0));
    using folder = new EventFolder(logs, create(JobSchema, { spec: { name: "lake" }, uid: "fedcba98" }));
    expect(folder.add(at(0))).toBe(true);
    expect(readdirSync(logs)).toEqual(["lake-01234567", "lake-fedcba98"]);
  });

  const python = process.env["WHETSTONE_TENSORBOARD_PYTHON"];
  it.skipIf(!python)(
    "are read by TensorBoard, over a file that ends in the middle of an event",
    () => {
      write(at(0), at(1), at(2));
      const [file = ""] = files();
      truncateSync(file, readFileSync(file).length - 3);
      write(at(1), at(2), at(3));
      const read = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
print(json.dumps([[event.step, event.wall_time, event.value] for event in events.Scalars("loss")]))`;
      const said = execFileSync(python ?? "", ["-c", read, join(logs, "lake-01234567")], { encoding: "utf8" });
      const expected = [0, 1, 2, 3].map((step) => [step, 1_700_000_000 + step / 4, -step / 8]);
      expect(JSON.parse(said)).toEqual(expected);
    },
    60_000,
  );
});

describe("a folder that cannot hold them", () => {
  it("is refused before anything is read", () => {
    const file = join(logs, "file");
    writeFileSync(file, "");
    for (const [folder, code] of [
      [file, "ENOTDIR"],
      [join(file, "inner"), "ENOTDIR"],
      ["/proc/nope", "ENOENT"],
    ] as const)
      expect(() => checkLogFolder(folder)).toThrow(`--tensorboard: ${folder} cannot be written (${code})`);
  });

  it("is named when the job's own place in it is a file", () => {
    writeFileSync(join(logs, "lake-01234567"), "");
    expect(() => write(at(0))).toThrow(/event files cannot be written in .*lake-01234567 \(ENOTDIR\)/);
  });

  it.skipIf(!canMountVolumes())("is named when its disk is full; with space again nothing is missing", () => {
    using volume = smallVolume(1);
    using folder = new EventFolder(volume.path, job);
    folder.add(at(0));
    volume.fill();
    const long = { ...at(1), scalars: Array.from({ length: 500 }, (_, i) => [`name/${i}`, i] as const) };
    const add = (): boolean => folder.add(long as unknown as MetricsPoint);
    expect(add).toThrow(/lake-01234567 \(the disk is full\)/);
    volume.free();
    expect(add()).toBe(true);
    const read = readdirSync(folder.path).map((file) => pointsOf(join(folder.path, file)).length);
    expect(read).toEqual([2, 2]); // each begins with its version
  });
});

it("a step's point has its metrics, its tokens and where its time went", () => {
  const step = create(StepRecordSchema, {
    step: 4,
    policyVersion: 5n,
    tokensSampled: 99n,
    metrics: { loss: 0.5, "lag/share/0": 1 },
    timing: { total: { seconds: 2n }, training: { nanos: 500_000_000 } },
    finishedAt: timestampFromMs(1_700_000_000_500),
  });
  expect(pointDocument(stepPoint(step))).toEqual({
    step: 4,
    time: "2023-11-14T22:13:20.500Z",
    policy_version: 5,
    tokens_sampled: 99,
    loss: 0.5,
    "lag/share/0": 1,
    "timing/total": 2,
    "timing/sampling": 0,
    "timing/training": 0.5,
    "timing/syncing": 0,
    "timing/waiting": 0,
    "timing/validating": 0,
  });
});

it("a validation's point has its scores, what the trainer measured, or nothing but counts", () => {
  const result = {
    step: 4,
    variant: "greedy",
    tasks: 2,
    episodes: 4,
    success: 0.5,
    meanReward: 0.25,
    passAtK: { 2: 1 },
  };
  const namesOf = (init: object): string[] =>
    validationPoint(create(ValidationResultSchema, { ...result, ...init })).scalars.map(([name]) => name);
  const counts = ["episodes", "tasks", "voided", "seconds"].map((name) => `validation/greedy/${name}`);
  const scores = ["success", "reward", "pass@2"].map((name) => `validation/greedy/${name}`);
  expect(namesOf({})).toEqual([...counts, ...scores]);
  expect(namesOf({ metrics: { loss: 1 } })).toEqual([...counts, "validation/greedy/loss"]);
  expect(namesOf({ episodes: 0, voided: 4 })).toEqual(counts);
});
