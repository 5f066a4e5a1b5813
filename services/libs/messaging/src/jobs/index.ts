// SPDX-License-Identifier: Apache-2.0
// What a job's record means, without the connection to where it lies.
export { DESIRED, isWanted, mayReplace, waitsFor } from "./desired-state.ts";
export { isFinished, type JobState, jobState, type PhaseChange, phaseOf, reached } from "./job-state.ts";
