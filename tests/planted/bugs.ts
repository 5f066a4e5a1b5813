// SPDX-License-Identifier: Apache-2.0
// Rules broken on purpose. Each bug is one edit of one file; the tests of the service that holds the rule must then fail.

import type { Mend } from "./mend.ts";

export const BUGS: readonly Mend[] = [
  {
    row: "`complete` accepts a group of one",
    without: "the size that a complete group has",
    file: "services/controller/src/loop/batch/batch.ts",
    find: "return sound >= job.groupSize;",
    replace: "return sound >= 1;",
    test: "services/controller/src/loop/batch/batch.test.ts",
  },
  {
    row: "Tasks are published before their dispatch record",
    without: "the record that comes first",
    file: "services/controller/src/loop/batch/batch-collector.ts",
    find: "    await this.#parts.ledger.saveDispatch(record);\n    this.#keep(record);\n    await this.#publish(record, signal);",
    replace:
      "    await this.#publish(record, signal);\n    await this.#parts.ledger.saveDispatch(record);\n    this.#keep(record);",
    test: "services/controller/src/loop/batch/batch-collector.test.ts",
  },
  {
    row: "The label is set before the load",
    without: "the load that comes first",
    file: "services/controller/src/fleet/engine-switch.ts",
    find: "    await control.loadWeights(policy.path, signal);\n    await control.setLabel(label, signal);",
    replace: "    await control.setLabel(label, signal);\n    await control.loadWeights(policy.path, signal);",
    test: "services/controller/src/fleet/fleet-switch.test.ts",
  },
  {
    row: "No canary after the load",
    without: "the canary",
    file: "services/controller/src/fleet/engine-switch.ts",
    find: "    await control.canary(label, signal);\n",
    replace: "",
    test: "services/controller/src/fleet/fleet-switch.test.ts",
  },
  {
    row: "A message without an id is published again after a lost acknowledgement",
    without: "the single attempt",
    file: "services/libs/messaging/src/publish.ts",
    find: "attempts: repeatable ? Number.POSITIVE_INFINITY : 1,",
    replace: "attempts: Number.POSITIVE_INFINITY,",
    test: "services/libs/messaging/src/publish.test.ts",
  },
];
