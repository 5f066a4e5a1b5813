// SPDX-License-Identifier: Apache-2.0
export { diffOf, reverseEdits } from "./edits.ts";
export { LIBRARY_PINS } from "./library-pins.ts";
export {
  folderNameOf,
  type LibraryPin,
  LibraryPinSchema,
  type LibraryRecord,
  type PackageFile,
  STATE_FILE,
} from "./library.ts";
export { LibraryStore, readRecord } from "./library-store.ts";
export { type LibrarySources, makeLibrary } from "./factory/make-library.ts";
export { type MadeTask, makeTasks, type MakeTasksOptions } from "./factory/make-tasks.ts";
export { type Proof, type ProofDeps, proveTask } from "./factory/prove-task.ts";
export { SweEpisode, type SweEpisodeOptions } from "./swe-episode.ts";
export { type SweTask, SweTaskSchema } from "./task.ts";
