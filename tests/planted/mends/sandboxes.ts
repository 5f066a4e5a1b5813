// SPDX-License-Identifier: Apache-2.0
import type { Mend } from "../mend.ts";

export const SANDBOXES: readonly Mend[] = [
  {
    row: "a dozen programs were judged at once in a full pool",
    without: "the turn of whoever tries again",
    file: "services/libs/sandbox/src/open-together.ts",
    find: "  using _turn = await retryGate(backend).acquire(signal);\n",
    replace: "  retryGate(backend);\n",
    test: "services/libs/sandbox/src/open-together.test.ts",
    only: "however many",
  },
  {
    row: "a call to the API server was given up",
    without: "HTTP/1.1",
    file: "services/libs/kube/src/credentials.ts",
    find: "allowH2: false",
    replace: "allowH2: true",
    test: "services/libs/kube/src/credentials.test.ts",
  },
];
