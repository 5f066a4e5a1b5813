// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";

import { refusedValues } from "./helm-values.ts";

const SCHEMA = "values don't meet the specifications of the schema(s) in the following chart(s):\nwhetstone:\n";

it.each([
  [
    "the schema, Helm 3.17",
    `${SCHEMA}- engine.replicas: Invalid type. Expected: integer, given: string\n- (root): Additional property enigne is not allowed`,
    [
      { path: "engine.replicas", reason: "Invalid type. Expected: integer, given: string" },
      { path: "values", reason: "Additional property enigne is not allowed" },
    ],
  ],
  [
    "the schema, newer ones",
    `${SCHEMA}- at '/engine/replicas': got string, want integer\n- at '': additional properties 'enigne' not allowed`,
    [
      { path: "engine.replicas", reason: "got string, want integer" },
      { path: "values", reason: "additional properties 'enigne' not allowed" },
    ],
  ],
  [
    "a template",
    "execution error at (whetstone/templates/checks.yaml:9:4): model.init: makes a model for another engine",
    [{ path: "model.init", reason: "makes a model for another engine" }],
  ],
  [
    "a template, without a path",
    'execution error at (whetstone/templates/one-release.yaml:10:4): Release "one" is already installed: upgrade it.',
    [{ path: "values", reason: 'Release "one" is already installed: upgrade it.' }],
  ],
  [
    "helm's own reading",
    'failed parsing --set data: key "x" has no value',
    [{ path: "values", reason: 'failed parsing --set data: key "x" has no value' }],
  ],
  [
    "a file that is not there",
    "open mine.yaml: no such file or directory",
    [{ path: "values", reason: "open mine.yaml: no such file or directory" }],
  ],
  ["nothing about values", "Kubernetes cluster unreachable: connection refused", []],
])("what helm refuses of values: %s", (_, said, expected) => {
  expect(refusedValues(said)).toEqual(expected);
});
