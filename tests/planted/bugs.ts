// SPDX-License-Identifier: Apache-2.0
// Rules broken on purpose. Each bug is one edit of one file; the tests of the service that holds the rule must then fail.

export interface PlantedBug {
  readonly name: string;
  /** The edited file. */
  readonly file: string;
  /** Text that stands in the file exactly once, and what takes its place. */
  readonly find: string;
  readonly replace: string;
  /** The tests that guard the rule, part of the service's own. */
  readonly suite: string;
}

const controller = "services/controller/src";

export const BUGS: readonly PlantedBug[] = [
  {
    name: "the group policy `complete` accepts a group of one",
    file: `${controller}/loop/batch/batch.ts`,
    find: "return sound >= job.groupSize;",
    replace: "return sound >= 1;",
    suite: `${controller}/loop/batch/batch.test.ts`,
  },
  {
    name: "tasks are published before their dispatch record",
    file: `${controller}/loop/batch/batch-collector.ts`,
    find: "    await this.#parts.ledger.saveDispatch(record);\n    this.#dispatches[step] = record;\n    await this.#publish(record, signal);",
    replace:
      "    await this.#publish(record, signal);\n    await this.#parts.ledger.saveDispatch(record);\n    this.#dispatches[step] = record;",
    suite: `${controller}/loop/batch/batch-collector.test.ts`,
  },
  {
    name: "the label is set before the load",
    file: `${controller}/fleet/engine-fleet.ts`,
    find: "    await control.loadWeights(policy.path, signal);\n    await control.setLabel(label, signal);",
    replace: "    await control.setLabel(label, signal);\n    await control.loadWeights(policy.path, signal);",
    suite: `${controller}/fleet/fleet-switch.test.ts`,
  },
  {
    name: "no canary after the load",
    file: `${controller}/fleet/engine-fleet.ts`,
    find: "    await control.canary(label, signal);\n",
    replace: "",
    suite: `${controller}/fleet/fleet-switch.test.ts`,
  },
  {
    name: "a message without an id is published again after a lost acknowledgement",
    file: "services/libs/messaging/src/publish.ts",
    find: "attempts: repeatable ? Number.POSITIVE_INFINITY : 1,",
    replace: "attempts: Number.POSITIVE_INFINITY,",
    suite: "services/libs/messaging/src/publish.test.ts",
  },
];
