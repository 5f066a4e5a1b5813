// SPDX-License-Identifier: Apache-2.0
// Every mend of docs/faults.md, in the order of its tables.
import { BUGS } from "./bugs.ts";
import type { Mend } from "./mend.ts";
import { AGENTS } from "./mends/agents.ts";
import { CLUSTER } from "./mends/cluster.ts";
import { DISKS } from "./mends/disks.ts";
import { ENGINE } from "./mends/engine.ts";
import { GATEWAY } from "./mends/gateway.ts";
import { OBJECT_STORE } from "./mends/object-store.ts";
import { SANDBOXES } from "./mends/sandboxes.ts";
import { SUBMISSION } from "./mends/submission.ts";
import { TRAINING } from "./mends/training.ts";
import { WEIGHTS } from "./mends/weights.ts";

export const MENDS: readonly Mend[] = [
  ...TRAINING,
  ...DISKS,
  ...WEIGHTS,
  ...OBJECT_STORE,
  ...SUBMISSION,
  ...AGENTS,
  ...GATEWAY,
  ...ENGINE,
  ...CLUSTER,
  ...SANDBOXES,
  ...BUGS,
];
