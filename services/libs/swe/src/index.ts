// SPDX-License-Identifier: Apache-2.0
export {
  GRAMMARS,
  SWE_INSTANCE_TEMPLATE,
  SWE_SYSTEM_TEMPLATE,
  SweAgent,
  type SweAgentOptions,
} from "./agent/swe-agent.ts";
export { type AgentShell, type CommandOptions, quoted } from "./agent-shell.ts";
export { diffOf, reverseEdits } from "./edits.ts";
export { LIBRARY_PINS } from "./library-pins.ts";
export { NPM_LIBRARY_PINS } from "./npm-library-pins.ts";
export {
  folderNameOf,
  type LibraryPin,
  LibraryPinSchema,
  type LibraryRecord,
  type PackageFile,
  STATE_FILE,
} from "./library.ts";
export { LibraryStore, readRecord } from "./library-store.ts";
export { type LibrarySources, type StateSummary, makeLibrary } from "./factory/make-library.ts";
export { type MadeTask, makeTasks, type MakeTasksOptions } from "./factory/make-tasks.ts";
export { type Proof, type ProofDeps, proveTask } from "./factory/prove-task.ts";
export { R2E_GYM_FIELDS, R2E_GYM_OTHER_COLUMNS } from "./formats/r2e-gym-instance.ts";
export { r2eGymTask } from "./formats/r2e-gym-task.ts";
export { checkSweBenchRow, SWE_BENCH_FIELDS, SWE_BENCH_OTHER_COLUMNS } from "./formats/swe-bench-instance.ts";
export { sweBenchTask } from "./formats/swe-bench-task.ts";
export { InstanceEpisode, type InstanceEpisodeOptions } from "./instance/instance-episode.ts";
export { ofThePlatform } from "./infrastructure.ts";
export { type BorrowedState, StateStore } from "./instance/state-store.ts";
export type { RepositoryTask } from "./instance/repository-task.ts";
export { SweEpisode, type SweEpisodeOptions } from "./swe-episode.ts";
export { type SweTask, SweTaskSchema } from "./task.ts";
export { TOOLSETS, type Toolset, toolsOf } from "./tools/toolset.ts";
