// SPDX-License-Identifier: Apache-2.0
import type { Edit } from "./edit.ts";

/** What makes a row of docs/faults.md true: an edit takes it away, and a test must notice. */
export interface Mend extends Edit {
  /** The beginning of its row in docs/faults.md: what was done. */
  readonly row: string;
  /** What is taken away. */
  readonly without: string;
  /** The test needs a cluster. */
  readonly cluster?: true;
}
