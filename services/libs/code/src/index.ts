// SPDX-License-Identifier: Apache-2.0
export { CodeEnvironment, type CodeEnvironmentOptions } from "./code-environment.ts";
export { type CodeLimits, CodeTests, type Verdict } from "./code-task.ts";
export { type CodeTask, fromApps, fromHumanEval, fromLiveCodeBench } from "./formats.ts";
export { judgeProgram } from "./judge-program.ts";
export { LineProcess } from "./line-process.ts";
