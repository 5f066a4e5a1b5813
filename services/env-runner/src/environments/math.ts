// SPDX-License-Identifier: Apache-2.0
import {
  defineEnvironment,
  type RegisteredEnvironment,
  RevisingEnvironment,
  SingleTurnEnvironment,
} from "@whetstone/sdk";
import { z } from "zod";
import { type Graded, GradedArgs, type Judge, parseGraded, rewardFunctionOf, taskOf } from "./graded.ts";

export function mathEnvironment(judge: Judge): RegisteredEnvironment {
  return defineEnvironment<Graded>({
    kind: "math",
    description: "A question, one answer; reward 1 for a right one, 0 otherwise.",
    seedable: true,
    parseArgs: (args) => parseGraded(GradedArgs, args, judge),
    argsSchema: z.toJSONSchema(GradedArgs, { io: "input" }),
    create: (args) => new SingleTurnEnvironment({ task: taskOf(args), rewardFunction: rewardFunctionOf(args, judge) }),
  });
}

const ReviseArgs = GradedArgs.extend({
  maxTurns: z.number().int().min(1).max(100).default(2).describe("answers"),
  feedback: z
    .enum(["verdict", "blind"])
    .default("verdict")
    .describe("verdict: a right answer ends the episode; blind: every answer but the last is asked to be reviewed"),
  improvementBonus: z
    .number()
    .min(0)
    .max(10)
    .default(0)
    .describe("extra reward per change of the grade, from the second answer on"),
});

export function mathReviseEnvironment(judge: Judge): RegisteredEnvironment {
  return defineEnvironment<z.output<typeof ReviseArgs>>({
    kind: "math-revise",
    description:
      "A question, and after each wrong answer another try; a trajectory's reward is its last answer's grade.",
    seedable: true,
    parseArgs: (args) => parseGraded(ReviseArgs, args, judge),
    argsSchema: z.toJSONSchema(ReviseArgs, { io: "input" }),
    create: ({ maxTurns, feedback, improvementBonus, ...args }) => {
      const [task, rewardFunction] = [taskOf(args), rewardFunctionOf(args, judge)];
      return new RevisingEnvironment({ task, rewardFunction, maxTurns, feedback, improvementBonus });
    },
  });
}
