// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { TaskSchema } from "@whetstone/proto/types/v1/types";
import { countTurns } from "@whetstone/testkit";
import { describe, expect, it } from "vitest";
import { listTasks, seedTasks, shuffledTasks } from "./dataset.ts";
import { checkDemonstrations } from "../jobs/validation/validate-demonstrations.ts";

const MANY = 50_000;

describe("many tasks leave others their turns", () => {
  it("while each pass is shuffled", async () => {
    const tasks = shuffledTasks(seedTasks(0, MANY), 1n);
    expect(await countTurns(() => tasks.at(0))).toBeGreaterThan(40);
    expect(await countTurns(() => tasks.at(1))).toBeLessThan(2);
    expect(await countTurns(() => tasks.at(MANY))).toBeGreaterThan(40);
  });

  it("while their demonstrations are checked", async () => {
    const shown = (role: string) => create(TaskSchema, { demonstration: [{ role }] });
    const good = Array<ReturnType<typeof shown>>(MANY).fill(shown("assistant"));
    expect(await countTurns(() => checkDemonstrations(listTasks(good), "train", false))).toBeGreaterThan(40);
    expect(await checkDemonstrations(listTasks([...good, shown("user")]), "train", false)).toMatchObject([
      {
        path: "train",
        reason: expect.stringContaining(`task ${MANY + 1} (): demonstration: has no assistant`) as string,
      },
    ]);
  });
});
