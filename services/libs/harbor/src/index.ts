// SPDX-License-Identifier: Apache-2.0
export { requireFollowable } from "./build-plan.ts";
export { HarborEpisode, type HarborEpisodeOptions } from "./harbor-episode.ts";
export { type Proof, type ProofOptions, proveTask } from "./prove-task.ts";
export { type HarborTask, readTask } from "./task-folder.ts";
export { imageOf, limitsOf } from "./task-needs.ts";
export type { HarborDeps } from "./task-sandbox.ts";
